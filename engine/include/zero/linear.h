#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "zero/layers.h"

namespace zero {

struct LoraOptions;

// One of the two factors of an adapter, in fp32.
class LoraFactorImpl : public torch::nn::Module {
 public:
  explicit LoraFactorImpl(const at::Tensor& values) {
    weight = register_parameter("weight", values);
  }
  at::Tensor weight;  // A: (r, in); B: (out, r)
};

// A linear layer that add_lora() (<zero/lora.h>) can give an adapter. A class of one's
// own is one as zero::Linear is:
//
//   class MyLinearImpl : public torch::nn::Module, public zero::LoraLayer {
//     ...
//     at::Tensor forward(const at::Tensor& x) { return adapted(my_product(x), x); }
//     Shape lora_shape() const override { return {in, out, /*is_transposed=*/false}; }
//   };
class LoraLayer {
 public:
  struct Shape {
    int64_t in = 0, out = 0;
    bool is_transposed = false;  // its weight is (in, out), as that of a Conv1D
  };
  virtual Shape lora_shape() const = 0;
  bool has_lora() const { return a_ != nullptr; }
  double lora_scale() const { return scale_; }
  double lora_dropout() const { return dropout_; }
  int64_t lora_rank() const { return a_ ? a_->weight.size(0) : 0; }

 protected:
  ~LoraLayer() = default;
  // y (..., out), what the layer makes of x (..., in): with the adapter's part, which is
  // made and added in fp32, in the type of y.
  at::Tensor adapted(const at::Tensor& y, const at::Tensor& x) const;
  // The same of a layer that is linear(x, weight, bias) (<zero/layers.h>): faster, and it
  // keeps x alone, where weight and bias are frozen.
  at::Tensor adapted_linear(const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) const;

 private:
  friend class LoraAdder;
  std::shared_ptr<LoraFactorImpl> a_, b_;
  double scale_ = 1, dropout_ = 0;
};

// torch::nn::Linear, with its names and values, that may have an adapter.
class LinearImpl : public torch::nn::LinearImpl, public LoraLayer {
 public:
  LinearImpl(int64_t in, int64_t out, bool has_bias = true)
      : LinearImpl(torch::nn::LinearOptions(in, out).bias(has_bias)) {}
  explicit LinearImpl(const torch::nn::LinearOptions& options)
      : torch::nn::LinearImpl(options) {}

  at::Tensor forward(const at::Tensor& x) {  // (..., in) -> (..., out)
    return adapted_linear(x, weight, bias);
  }
  Shape lora_shape() const override {
    return {options.in_features(), options.out_features()};
  }
  // A zero::Linear. Throws Error(kUsage) for one with an adapter.
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& device = std::nullopt) const override;
};
TORCH_MODULE(Linear);

}  // namespace zero
