#include "examples/models/families.h"

namespace zero {

ModelFamilies example_families() {
  return {gpt2_family(), llama_family(), gptj_family(), gpt_neox_family()};
}

}  // namespace zero
