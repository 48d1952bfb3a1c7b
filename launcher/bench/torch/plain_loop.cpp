#include "launcher/bench/plain_loop.h"

#include <torch/torch.h>

#include <vector>

#include "base/dtype.h"
#include "engine/device/torch/compute_type.h"
#include "launcher/run/runner.h"

namespace zero::launcher {
namespace {

class PlainLoop {
 public:
  PlainLoop(std::unique_ptr<Model> model, at::ScalarType dtype, bool with_optimizer)
      : model_(std::move(model)),
        has_copies_(dtype != at::kFloat),
        params_(parameters_of(*model_)) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& p : params_) {
      if (p.dim() >= 2) p.normal_(0, 0.02);
      if (with_optimizer)
        masters_.push_back(has_copies_ ? p.detach().clone().requires_grad_() : p);
      if (has_copies_) p.set_data(p.detach().to(dtype));
    }
    if (!with_optimizer) return;
    optimizer_ = std::make_unique<torch::optim::AdamW>(
        masters_, torch::optim::AdamWOptions(3e-4).betas({0.9, 0.95}).weight_decay(0.1));
  }

  void step(const Batch& batch) {
    const at::Tensor loss_sum = model_->loss_sum(inputs_of(batch), targets_of(batch));
    (loss_sum / static_cast<double>(batch.num_targets())).backward();
    if (optimizer_) update();
    for (at::Tensor& p : params_) p.mutable_grad().reset();
  }

 private:
  void update() {
    const torch::NoGradGuard no_grad;
    for (size_t i = 0; has_copies_ && i < params_.size(); ++i)
      masters_[i].mutable_grad() = params_[i].grad().to(at::kFloat);
    torch::nn::utils::clip_grad_norm_(masters_, 1.0);
    optimizer_->step();
    for (size_t i = 0; has_copies_ && i < params_.size(); ++i)
      params_[i].copy_(masters_[i]);
  }

  std::unique_ptr<Model> model_;
  const bool has_copies_;
  std::vector<at::Tensor> params_, masters_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;  // null: there is none
};

}  // namespace

PlainStep make_plain_step(std::unique_ptr<Model> model, const std::string& dtype,
                          bool with_optimizer) {
  const auto loop = std::make_shared<PlainLoop>(
      std::move(model), scalar_type(dtype_named(dtype).value()), with_optimizer);
  return [loop](const Batch& batch) { loop->step(batch); };
}

}  // namespace zero::launcher
