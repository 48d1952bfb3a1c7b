#include "offload/tbb_versions.h"

#include <tbb/version.h>

namespace zero {

std::pair<std::string, std::string> tbb_versions() {
  return {TBB_VERSION_STRING, TBB_runtime_version()};
}

}  // namespace zero
