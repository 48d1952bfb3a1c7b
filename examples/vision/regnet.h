#pragma once
#include <torch/torch.h>
#include <zero/batch_norm.h>
#include <zero/unit.h>

#include <string>
#include <vector>

namespace zero {

// RegNetX and RegNetY, with the modules and names of torchvision's. Source: Radosavovic
// et al., "Designing Network Design Spaces", CVPR 2020; widths by its equations 2 to 4.
struct RegNetConfig {
  int64_t depth = 16;  // blocks
  int64_t w_0 = 48;    // width that the first block begins with
  double w_a = 27.89;  // by which the next one grows, before widths are made equal
  double w_m = 2.09;   // quotient of neighbouring widths
  int64_t group_width = 8;
  double bottleneck_multiplier = 1;
  double se_ratio = 0.25;  // squeezed channels by a block's input; 0: none, RegNetX
  int64_t stem_width = 32;
  int64_t num_classes = 1000;
};

// Blocks of one width; the first of them halves height and width.
struct RegNetStage {
  int64_t width = 0, depth = 0, group_width = 0;
  bool operator==(const RegNetStage&) const = default;
};

std::vector<RegNetStage> stages_of(const RegNetConfig& config);

// Channels of a block's 3x3; those that it squeezes to, where so many go in.
int64_t inner_width(const RegNetConfig& config, int64_t width);
int64_t squeezed_width(const RegNetConfig& config, int64_t in);

// conv and norm, and a ReLU, as entries 0 and 1 of a torchvision Conv2dNormActivation.
struct ConvNormOptions {
  int64_t kernel = 1, stride = 1, groups = 1;
  bool has_relu = true;
};
class ConvNormImpl : public torch::nn::Module {
 public:
  ConvNormImpl(int64_t in, int64_t out, const ConvNormOptions& options);
  at::Tensor forward(const at::Tensor& x);  // (N, in, H, W) -> (N, out, H / s, W / s)

 private:
  const bool has_relu_;
  torch::nn::Conv2d conv_{nullptr};
  BatchNorm2d norm_{nullptr};
};
TORCH_MODULE(ConvNorm);

// Scales each channel by what the means of all channels tell.
class SqueezeExcitationImpl : public torch::nn::Module {
 public:
  SqueezeExcitationImpl(int64_t channels, int64_t squeezed);
  at::Tensor forward(const at::Tensor& x);  // (N, C, H, W) -> the same

 private:
  torch::nn::Conv2d fc1_{nullptr}, fc2_{nullptr};
};
TORCH_MODULE(SqueezeExcitation);

// A residual block: 1x1, 3x3 in groups, squeeze and excitation, 1x1.
class RegNetBlockImpl : public torch::nn::Module {
 public:
  RegNetBlockImpl(const RegNetConfig& config, const RegNetStage& stage, int64_t in,
                  int64_t stride);
  at::Tensor forward(const at::Tensor& x);

 private:
  ConvNorm proj_{nullptr};  // empty where input and output are alike
  ConvNorm a_{nullptr}, b_{nullptr}, c_{nullptr};
  SqueezeExcitation se_{nullptr};  // empty in RegNetX
};

class RegNetImpl : public torch::nn::Module {
 public:
  explicit RegNetImpl(const RegNetConfig& config);
  at::Tensor forward(const at::Tensor& images);  // (N, 3, H, W) -> (N, classes)

 private:
  ConvNorm stem_{nullptr};
  std::vector<Unit<RegNetBlockImpl>> blocks_;
  torch::nn::Linear fc_{nullptr};
};
TORCH_MODULE(RegNet);

}  // namespace zero
