#pragma once
#include <torch/torch.h>

#include <memory>

#include "base/no_copy.h"
#include "launcher/model.h"

namespace zero::launcher {

// No gradients and no dropout, until the end of the scope.
class Inference : NoCopy {
 public:
  explicit Inference(Model& model) : module_(model.module()) { module_->eval(); }
  ~Inference() { module_->train(); }

 private:
  const std::shared_ptr<torch::nn::Module> module_;
  const torch::NoGradGuard no_grad_;
};

}  // namespace zero::launcher
