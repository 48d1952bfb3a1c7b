#include <algorithm>
#include <array>
#include <cmath>

#include "examples/models/config_reader.h"
#include "examples/vision/families.h"
#include "examples/vision/regnet.h"

namespace zero {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

using nlohmann::json;

// That each convolution has channels, and not too many.
void require_widths(const ConfigReader& config, const RegNetConfig& regnet) {
  constexpr double kWidest = 1 << 16;
  const double widest =
      static_cast<double>(regnet.w_0) + regnet.w_a * static_cast<double>(regnet.depth);
  config.require(
      widest * regnet.w_m * std::max(1.0, regnet.bottleneck_multiplier) <= kWidest,
      "blocks are more than 65536 wide", "a smaller depth, w_a or w_m");
  config.require(inner_width(regnet, regnet.w_0 / 2) > 0,
                 "bottleneck_multiplier leaves a block without channels",
                 "a larger bottleneck_multiplier");
  config.require(regnet.se_ratio == 0 ||
                     squeezed_width(regnet, std::min(regnet.stem_width, regnet.w_0)) > 0,
                 "se_ratio squeezes all channels away",
                 "se_ratio 0, or larger; or a larger stem_width");
}

RegNetConfig regnet_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "regnet");
  RegNetConfig regnet;
  regnet.depth = config.integer("depth", 1, 1 << 10);
  regnet.w_0 = config.integer("w_0", 8, 1 << 14);
  regnet.w_a = config.number("w_a", 0, 1 << 14);
  regnet.w_m = config.number("w_m", 1 + 1e-6, 1 << 10);
  regnet.group_width = config.integer("group_width", 1, 1 << 14);
  regnet.bottleneck_multiplier = config.number("bottleneck_multiplier", 1e-3, 1e3);
  regnet.se_ratio = config.number("se_ratio", 0, 1);
  regnet.stem_width = config.integer("stem_width", 1, 1 << 14);
  regnet.num_classes = config.integer("num_classes", 1, 1 << 24);
  config.integer_or("image_size", 0, 8, 1 << 12);
  config.require(regnet.w_0 % 8 == 0, "w_0 is no multiple of 8", "w_0: 8, 16, ...");
  require_widths(config, regnet);
  return regnet;
}

class RegNetModel : public ImageModel {
 public:
  explicit RegNetModel(const RegNetConfig& config) : net_(config) {}

  std::shared_ptr<nn::Module> module() override { return net_.ptr(); }
  at::Tensor logits(const at::Tensor& images) override {
    return net_(images).to(at::kFloat);
  }
  at::Tensor loss_sum(const at::Tensor& images, const at::Tensor& targets) override {
    return F::cross_entropy(
        logits(images), targets.flatten(),
        F::CrossEntropyFuncOptions().reduction(torch::kSum).ignore_index(-1));
  }

 private:
  RegNet net_;
};

// As torchvision starts convolutions: by what they give out.
InitSpec of_conv(int64_t kernel, int64_t out) {
  return normal(0, std::sqrt(2.0 / static_cast<double>(kernel * kernel * out)));
}

// Of the first block of a stage, or of the others, whose input is as wide as the stage.
void add_squeezing(InitRules& rules, const std::string& blocks, int64_t inner,
                   int64_t squeezed) {
  const std::string fc1 = blocks + ".f.se.fc1.", fc2 = blocks + ".f.se.fc2.";
  rules.emplace_back(fc1 + "weight", of_conv(1, squeezed));
  rules.emplace_back(fc1 + "bias", kaiming_uniform(inner));
  rules.emplace_back(fc2 + "weight", of_conv(1, inner));
  rules.emplace_back(fc2 + "bias", kaiming_uniform(squeezed));
}

InitRules regnet_init_rules(const ModelShape& shape) {
  const RegNetConfig config = regnet_config(shape);
  InitRules rules = {{"stem.0.weight", of_conv(3, config.stem_width)},
                     {"fc.weight", normal(0, 0.01)}};
  int64_t in = config.stem_width, number = 0;
  for (const RegNetStage& stage : stages_of(config)) {
    const std::string name = "block" + std::to_string(++number);
    const std::string blocks = "trunk_output." + name + "." + name + "-";
    const int64_t inner = inner_width(config, stage.width);
    for (const char* conv : {"*.proj.0.weight", "*.f.c.0.weight"})
      rules.emplace_back(blocks + conv, of_conv(1, stage.width));
    rules.emplace_back(blocks + "*.f.a.0.weight", of_conv(1, inner));
    rules.emplace_back(blocks + "*.f.b.0.weight", of_conv(3, inner));
    if (config.se_ratio > 0) {
      add_squeezing(rules, blocks + "0", inner, squeezed_width(config, in));
      if (stage.depth > 1)
        add_squeezing(rules, blocks + "*", inner, squeezed_width(config, stage.width));
    }
    in = stage.width;
  }
  rules.emplace_back("*.bias", zeros());
  rules.emplace_back("*", ones());  // of norms
  return rules;
}

int64_t halved(int64_t size) { return (size + 1) / 2; }

// What a block takes, in elements: of a sample its input, what torch keeps for its
// backward, and gradients meanwhile; and its weights.
struct BlockSizes {
  int64_t input = 0, kept = 0, passing = 0, weights = 0;
};

// `in` channels of a side of `size`; the 3x3 divides that by the stride. Each norm keeps
// what a convolution gives, and the next convolution what a ReLU gives.
BlockSizes sizes_of(const RegNetStage& stage, int64_t in, int64_t size, int64_t stride) {
  const int64_t before = stage.width * size * size;
  const int64_t after = stage.width * (size / stride) * (size / stride);
  return {in * size * size, 2 * before + 4 * after, 2 * std::max(before, after),
          stage.width * (2 * in + stage.width + 9 * stage.group_width)};
}

// The stem, and where backward is at the block that takes most: the inputs of all
// blocks, what those keep that do not recompute, and its gradients of weights, beside
// copies that the library orders anew.
ActivationBytes regnet_activation_bytes(const ModelShape& shape, const PassShape& pass) {
  const RegNetConfig config = regnet_config(shape);
  int64_t size = halved(std::max<int64_t>(shape.image_size(), 8));
  int64_t width = config.stem_width, number = 0;
  const auto rows = static_cast<double>(pass.rows);
  const auto element_bytes = static_cast<double>(pass.element_bytes);
  int64_t kept = 2 * width * size * size, offloaded = 0;
  double largest = 0;
  for (const RegNetStage& stage : stages_of(config)) {
    for (int64_t i = 0; i < stage.depth; ++i, ++number) {
      const BlockSizes block = sizes_of(stage, width, size, i == 0 ? 2 : 1);
      const bool recomputes =
          pass.recompute_every > 0 && number % pass.recompute_every == 0;
      (recomputes && pass.offloads ? offloaded : kept) += block.input;
      if (!recomputes) kept += block.kept;
      const auto at_once =
          static_cast<double>(block.passing + (recomputes ? block.kept : 0));
      const auto weights = static_cast<double>(block.weights);
      largest = std::max(largest, at_once * rows + 2 * weights);
      width = stage.width;
      if (i == 0) size = halved(size);
    }
  }
  return activation_bytes_of((static_cast<double>(kept) * rows + largest) * element_bytes,
                             static_cast<double>(offloaded) * rows * element_bytes);
}

struct Shape {
  const char* name;
  int64_t depth, w_0;
  double w_a, w_m;
  int64_t group_width;
};

// Their table of appendix D, as torchvision has it. The first of each is ours.
constexpr std::array kX = {Shape{"regnetx_tiny", 4, 16, 12, 2, 8},
                           Shape{"regnetx_400mf", 22, 24, 24.48, 2.54, 16},
                           Shape{"regnetx_800mf", 16, 56, 35.73, 2.28, 16},
                           Shape{"regnetx_1.6gf", 18, 80, 34.01, 2.25, 24},
                           Shape{"regnetx_3.2gf", 25, 88, 26.31, 2.25, 48},
                           Shape{"regnetx_8gf", 23, 80, 49.56, 2.88, 120},
                           Shape{"regnetx_16gf", 22, 216, 55.59, 2.1, 128},
                           Shape{"regnetx_32gf", 23, 320, 69.86, 2.0, 168}};
constexpr std::array kY = {Shape{"regnety_tiny", 4, 16, 12, 2, 8},
                           Shape{"regnety_400mf", 16, 48, 27.89, 2.09, 8},
                           Shape{"regnety_800mf", 14, 56, 38.84, 2.4, 16},
                           Shape{"regnety_1.6gf", 27, 48, 20.71, 2.65, 24},
                           Shape{"regnety_3.2gf", 21, 80, 42.63, 2.66, 24},
                           Shape{"regnety_8gf", 17, 192, 76.82, 2.19, 56},
                           Shape{"regnety_16gf", 18, 200, 106.23, 2.48, 112},
                           Shape{"regnety_32gf", 20, 232, 115.89, 2.53, 232},
                           Shape{"regnety_128gf", 27, 456, 160.83, 2.52, 264}};

json preset(const Shape& shape, double se_ratio) {
  return {{"depth", shape.depth}, {"w_0", shape.w_0},
          {"w_a", shape.w_a},     {"w_m", shape.w_m},
          {"se_ratio", se_ratio}, {"group_width", shape.group_width}};
}

}  // namespace

ModelFamily regnet_family() {
  ModelFamily family;
  family.name = "regnet";
  family.task = Task::kImages;
  family.keys = {.layers = "depth", .vocab = "num_classes", .image_size = "image_size"};
  const RegNetConfig usual;
  family.classes = {{"torchvision_regnet",
                     "RegNet",
                     {{"depth", usual.depth},
                      {"w_0", usual.w_0},
                      {"w_a", usual.w_a},
                      {"w_m", usual.w_m},
                      {"group_width", usual.group_width},
                      {"bottleneck_multiplier", usual.bottleneck_multiplier},
                      {"se_ratio", usual.se_ratio},
                      {"stem_width", usual.stem_width},
                      {"num_classes", nullptr},
                      {"image_size", nullptr}}}};
  for (const Shape& shape : kX) family.presets[shape.name] = preset(shape, 0);
  for (const Shape& shape : kY) family.presets[shape.name] = preset(shape, 0.25);
  family.default_preset = "regnety_400mf";
  family.check = [](const ModelShape& shape) { regnet_config(shape); };
  family.make = [](const ModelShape& shape) {
    return std::make_unique<RegNetModel>(regnet_config(shape));
  };
  family.init_rules = regnet_init_rules;
  family.activation_bytes = regnet_activation_bytes;
  return family;
}

}  // namespace zero
