#include "examples/vision/regnet.h"

#include <algorithm>
#include <cmath>

namespace zero {
namespace {

namespace nn = torch::nn;

// As torch::round() and Python's round(): halves to even.
double rounded(double value) { return std::nearbyint(value); }

// The multiple of `divisor` that is nearest, but no more than a tenth below.
int64_t divisible(double value, int64_t divisor) {
  const auto nearest =
      static_cast<int64_t>(value + static_cast<double>(divisor) / 2) / divisor * divisor;
  const int64_t result = std::max(divisor, nearest);
  return static_cast<double>(result) < 0.9 * value ? result + divisor : result;
}

// Of block i, before stages fit their groups; fp32, as torchvision computes.
int64_t width_of_block(const RegNetConfig& config, int64_t i) {
  constexpr double kQuantum = 8;
  const auto w_0 = static_cast<float>(config.w_0);
  const float wanted = static_cast<float>(i) * static_cast<float>(config.w_a) + w_0;
  const double power =
      rounded(std::log(wanted / w_0) / static_cast<float>(std::log(config.w_m)));
  const auto width = static_cast<float>(
      w_0 * std::pow(static_cast<float>(config.w_m), static_cast<float>(power)));
  return static_cast<int64_t>(rounded(width / kQuantum) * kQuantum);
}

// Width of the 3x3, and its groups fitted to it.
RegNetStage fitted(const RegNetConfig& config, int64_t width, int64_t depth) {
  const double ratio = config.bottleneck_multiplier;
  const auto inner = static_cast<int64_t>(static_cast<double>(width) * ratio);
  const int64_t group = std::min(config.group_width, inner);
  const int64_t fitting = divisible(static_cast<double>(inner), group);
  return {static_cast<int64_t>(static_cast<double>(fitting) / ratio), depth, group};
}

}  // namespace

int64_t inner_width(const RegNetConfig& config, int64_t width) {
  return static_cast<int64_t>(
      rounded(static_cast<double>(width) * config.bottleneck_multiplier));
}

int64_t squeezed_width(const RegNetConfig& config, int64_t in) {
  return static_cast<int64_t>(rounded(config.se_ratio * static_cast<double>(in)));
}

std::vector<RegNetStage> stages_of(const RegNetConfig& config) {
  std::vector<RegNetStage> stages;
  int64_t last_width = 0, num_alike = 0;
  for (int64_t i = 0; i <= config.depth; ++i) {
    const int64_t width = i < config.depth ? width_of_block(config, i) : 0;
    if (width != last_width && num_alike > 0) {
      stages.push_back(fitted(config, last_width, num_alike));
      num_alike = 0;
    }
    last_width = width;
    ++num_alike;
  }
  return stages;
}

ConvNormImpl::ConvNormImpl(int64_t in, int64_t out, const ConvNormOptions& options)
    : has_relu_(options.has_relu) {
  conv_ = register_module("0", nn::Conv2d(nn::Conv2dOptions(in, out, options.kernel)
                                              .stride(options.stride)
                                              .padding((options.kernel - 1) / 2)
                                              .groups(options.groups)
                                              .bias(false)));
  norm_ = register_module("1", BatchNorm2d(out));
}

at::Tensor ConvNormImpl::forward(const at::Tensor& x) {
  const at::Tensor normed = norm_(conv_(x));
  return has_relu_ ? normed.relu() : normed;
}

SqueezeExcitationImpl::SqueezeExcitationImpl(int64_t channels, int64_t squeezed) {
  fc1_ = register_module("fc1", nn::Conv2d(nn::Conv2dOptions(channels, squeezed, 1)));
  fc2_ = register_module("fc2", nn::Conv2d(nn::Conv2dOptions(squeezed, channels, 1)));
}

at::Tensor SqueezeExcitationImpl::forward(const at::Tensor& x) {
  const at::Tensor means = x.mean({2, 3}, /*keepdim=*/true);  // (N, C, 1, 1)
  return fc2_(fc1_(means).relu()).sigmoid() * x;
}

RegNetBlockImpl::RegNetBlockImpl(const RegNetConfig& config, const RegNetStage& stage,
                                 int64_t in, int64_t stride) {
  const int64_t inner = inner_width(config, stage.width), out = stage.width;
  if (in != out || stride != 1)
    proj_ = register_module(
        "proj", ConvNorm(in, out, ConvNormOptions{.stride = stride, .has_relu = false}));
  auto f = register_module("f", std::make_shared<nn::Module>());
  a_ = f->register_module("a", ConvNorm(in, inner, ConvNormOptions{}));
  b_ = f->register_module(
      "b", ConvNorm(inner, inner, ConvNormOptions{3, stride, inner / stage.group_width}));
  if (config.se_ratio > 0) {
    se_ = f->register_module("se", SqueezeExcitation(inner, squeezed_width(config, in)));
  }
  c_ = f->register_module("c", ConvNorm(inner, out, ConvNormOptions{.has_relu = false}));
}

at::Tensor RegNetBlockImpl::forward(const at::Tensor& x) {
  at::Tensor y = b_(a_(x));
  if (se_) y = se_(y);
  return ((proj_ ? proj_(x) : x) + c_(y)).relu();
}

RegNetImpl::RegNetImpl(const RegNetConfig& config) {
  stem_ = register_module("stem", ConvNorm(3, config.stem_width, ConvNormOptions{3, 2}));
  auto trunk = register_module("trunk_output", std::make_shared<nn::Module>());
  int64_t width = config.stem_width, number = 0;
  for (const RegNetStage& stage : stages_of(config)) {
    const std::string name = "block" + std::to_string(++number);
    auto of_stage = trunk->register_module(name, std::make_shared<nn::Module>());
    for (int64_t i = 0; i < stage.depth; ++i) {
      blocks_.push_back(of_stage->register_module(
          name + "-" + std::to_string(i),
          Unit<RegNetBlockImpl>(config, stage, width, i == 0 ? 2 : 1)));
      width = stage.width;
    }
  }
  fc_ = register_module("fc", nn::Linear(width, config.num_classes));
}

at::Tensor RegNetImpl::forward(const at::Tensor& images) {
  at::Tensor x = stem_(images);
  for (auto& block : blocks_) x = block(x);
  return fc_(x.mean({2, 3}));
}

}  // namespace zero
