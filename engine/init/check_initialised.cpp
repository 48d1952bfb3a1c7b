#include <torch/torch.h>

#include <exception>
#include <string>

#include "engine/init/replay.h"
#include "engine/weights/torch/flat_params.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"

namespace zero {
namespace {

bool lacks_values(const at::Tensor& tensor) {
  if (!tensor.defined() || is_flat(tensor))
    return false;  // an engine's, which has checked
  return is_deferred(tensor) || has_unwritten(tensor);
}

}  // namespace

CheckInitialised::CheckInitialised(std::shared_ptr<torch::nn::Module> model)
    : model_(std::move(model)), num_exceptions_(std::uncaught_exceptions()) {}

CheckInitialised::~CheckInitialised() noexcept(false) {
  if (std::uncaught_exceptions() > num_exceptions_) return;
  std::string list;
  const auto add = [&](const char* what, const auto& named) {
    for (const auto& item : named) {
      if (lacks_values(item.value()))
        list += std::string("\n  - ") + what + " " + item.key();
    }
  };
  add("parameter", model_->named_parameters());
  add("buffer", model_->named_buffers());
  if (list.empty()) return;
  reject("not initialised:" + list, "zero::CheckInitialised",
         "an init function, a rule (Options::init), or values in the constructor");
}

}  // namespace zero
