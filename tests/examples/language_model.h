#pragma once
#include <memory>

#include "launcher/model.h"

namespace zero {

// Of a family for language.
inline std::unique_ptr<LanguageModel> as_language(std::unique_ptr<Model> model) {
  return std::unique_ptr<LanguageModel>(&dynamic_cast<LanguageModel&>(*model.release()));
}

}  // namespace zero
