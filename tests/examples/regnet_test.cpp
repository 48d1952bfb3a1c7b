// RegNets beside torchvision's; scripts/references.sh regnet makes the numbers.
#include "examples/vision/regnet.h"

#include <gtest/gtest.h>

#include <cmath>

#include "examples/vision/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/engine/training.h"
#include "tests/examples/references.h"
#include "zero/deferred_init.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::regnet_test {
namespace {

using nlohmann::json;

const json& theirs() {
  static const json numbers = read_json("regnet.json");
  return numbers;
}

// As scripts/references/regnet.py makes it.
at::Tensor noise(int64_t numel, int64_t key) {
  const at::Tensor values = torch::sin(torch::arange(numel, torch::kFloat64) * 12.9898 +
                                       static_cast<double>(key) * 78.233) *
                            43758.5453;
  return ((values - values.floor()) * 2 - 1).to(torch::kFloat);
}

void fill(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  int64_t number = -1;
  for (auto& item : module.named_parameters()) {
    at::Tensor& parameter = item.value();
    ++number;
    if (parameter.dim() > 1) {
      const auto fan_in = static_cast<double>(parameter[0].numel());
      parameter.copy_(noise(parameter.numel(), number).view_as(parameter) *
                      std::sqrt(6 / fan_in));
    } else if (item.key().ends_with("bias")) {
      parameter.zero_();
    } else if (item.key().ends_with(".c.1.weight")) {
      parameter.fill_(0.2);
    }
  }
}

ModelShape shape_of(const std::string& preset, int64_t classes) {
  const ModelFamily family = regnet_family();
  launcher::Settings settings;
  settings.model = "regnet";
  settings.preset = preset;
  settings.vocab = classes;
  return launcher::new_shape(family, settings);
}

std::unique_ptr<Model> make(const std::string& preset, int64_t classes) {
  return regnet_family().make(shape_of(preset, classes));
}

// "y_1_6gf" is our regnety_1.6gf.
std::string preset_of(const std::string& theirs) {
  const std::string size = theirs.substr(2);
  const size_t point = size.find('_');
  return "regnet" + theirs.substr(0, 1) + "_" + size.substr(0, point) +
         (point == size.npos ? "" : "." + size.substr(point + 1));
}

TEST(RegNet, EachPresetHasAsManyParametersAsTorchvisions) {
  for (const auto& [name, count] : theirs().at("parameters").items()) {
    const DeferredInit without_memory;
    int64_t numel = 0;
    for (const at::Tensor& parameter :
         make(preset_of(name), 1000)->module()->parameters())
      numel += parameter.numel();
    EXPECT_EQ(numel, count.get<int64_t>()) << name;
  }
}

TEST(RegNet, TensorsHaveTorchvisionsNamesAndShapes) {
  const auto model = make("regnety_400mf", theirs().at("classes"));
  std::map<std::string, std::vector<int64_t>> ours;
  for (const auto& item : model->module()->named_parameters())
    ours[item.key()] = item.value().sizes().vec();
  for (const auto& item : model->module()->named_buffers())
    ours[item.key()] = item.value().sizes().vec();
  EXPECT_EQ(json(ours), theirs().at("tensors"));
}

struct Batch {
  at::Tensor images, targets;
};

Batch batch_of(int64_t step) {
  const int64_t rows = theirs().at("rows"), size = theirs().at("size");
  return {
      noise(rows * 3 * size * size, 1000 + step).view({rows, 3, size, size}),
      (torch::arange(rows) * 7 % theirs().at("classes").get<int64_t>()).view({-1, 1})};
}

struct Loss {
  Model& model;
  at::Tensor forward(const at::Tensor& images, const at::Tensor& targets) {
    return model.loss_sum(images, targets);
  }
};

// Ten steps of SGD, each rank with its rows of a batch; what rank 0 sees.
struct Run {
  std::vector<double> losses;
  std::map<std::string, double> statistics;
};

Run train_on(int num_ranks, Options options) {
  options.source = Source::kEveryRank;
  options.optimizer = {.kind = Optimizer::kSgd, .weight_decay = 0, .momentum = 0};
  options.schedule.lr = theirs().at("lr");
  options.nominal_targets = theirs().at("rows");
  Run run;
  testing::on_ranks(num_ranks, [&](std::unique_ptr<Ranks> ranks) {
    const auto model = make("regnety_400mf", theirs().at("classes"));
    fill(*model->module());
    const int rank = ranks->rank();
    Engine engine(model->module(), options, std::move(ranks));
    Loss loss{*model};
    auto* const callable = &loss;
    for (int64_t step = 0; step < 10; ++step) {
      const auto [images, targets] = batch_of(step);
      const int64_t rows = images.size(0) / num_ranks;
      engine.backward(engine.forward(callable, images.narrow(0, rank * rows, rows),
                                     targets.narrow(0, rank * rows, rows)),
                      rows);
      const double mean = engine.step().loss;
      if (rank == 0) run.losses.push_back(mean);
    }
    for (const auto& item : model->module()->named_buffers()) {
      if (rank == 0) run.statistics[item.key()] = item.value().sum().item<double>();
    }
  });
  return run;
}

void expect_theirs(const Run& run, double tolerance) {
  const std::vector<double> losses = theirs().at("losses");
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(run.losses.at(step), losses[step], tolerance * losses[step]) << step;
  for (const auto& [name, sum] : theirs().at("statistics").items()) {
    const double expected = sum.get<double>();
    EXPECT_NEAR(run.statistics.at(name), expected, tolerance * (1 + std::abs(expected)))
        << name;
  }
}

TEST(RegNet, LossesOfTenStepsAreTorchvisions) { expect_theirs(train_on(1, {}), 1e-5); }

TEST(RegNet, TwoRanksThatSynchroniseTrainAsOne) {
  Options options;
  options.sync_batch_norm = true;
  expect_theirs(train_on(2, options), 2e-5);
}

TEST(RegNet, ConvolutionsStartByWhatTheyGiveOut) {
  const ModelFamily family = regnet_family();
  const ModelShape shape = shape_of("regnety_400mf", 10);
  const InitRules rules = family.init_rules(shape);
  const DeferredInit without_memory;
  const auto model = family.make(shape);
  for (const auto& item : model->module()->named_modules()) {
    const auto* conv = item.value()->as<torch::nn::Conv2d>();
    if (!conv) continue;
    const int64_t kernel = (*conv->options.kernel_size())[0];
    const auto fan_out =
        static_cast<double>(kernel * kernel * conv->options.out_channels());
    EXPECT_EQ(to_string(rule_for(rules, item.key() + ".weight")),
              to_string(normal(0, std::sqrt(2.0 / fan_out))))
        << item.key();
    if (conv->options.bias()) {
      EXPECT_EQ(to_string(rule_for(rules, item.key() + ".bias")),
                to_string(kaiming_uniform(conv->options.in_channels())))
          << item.key();
    }
  }
}

TEST(RegNet, WidthsWithoutChannelsAreRefused) {
  const ModelFamily family = regnet_family();
  for (const json& change :
       {json{{"bottleneck_multiplier", 0.01}}, json{{"se_ratio", 0.0001}},
        json{{"w_a", 16000}}, json{{"w_m", 1000}}, json{{"w_0", 12}}}) {
    ModelShape shape = shape_of("regnety_400mf", 10);
    shape.config.update(change);
    EXPECT_THROW(family.check(shape), Error) << change;
  }
}

TEST(RegNet, HalvesAreRoundedToEvenAsInPython) {
  RegNetConfig config;
  config.se_ratio = 0.25;
  EXPECT_EQ(squeezed_width(config, 34), 8);
  EXPECT_EQ(squeezed_width(config, 14), 4);
  config.bottleneck_multiplier = 0.25;
  EXPECT_EQ(inner_width(config, 34), 8);
}

TEST(RegNet, APassTakesMoreOfMoreRowsAndLessWhereItRecomputes) {
  const ModelFamily family = regnet_family();
  ModelShape shape = shape_of("regnety_400mf", 10);
  shape.config["image_size"] = 64;
  const auto bytes = [&](const PassShape& pass) {
    const ActivationBytes of = family.activation_bytes(shape, pass);
    return std::pair(of.computed, of.offloaded);
  };
  const auto [all, none_goes] = bytes({.rows = 8, .recompute_every = 0});
  const auto [few, still_none] = bytes({.rows = 8, .recompute_every = 1});
  const auto [fewest, inputs] =
      bytes({.rows = 8, .recompute_every = 1, .offloads = true});
  EXPECT_LT(2 * few, 3 * all);
  EXPECT_EQ(none_goes + still_none, 0);
  EXPECT_EQ(few, fewest + inputs);
  EXPECT_EQ(inputs,
            8 * family
                    .activation_bytes(shape,
                                      {.rows = 1, .recompute_every = 1, .offloads = true})
                    .offloaded);
  EXPECT_EQ(2 * bytes({.rows = 8, .element_bytes = 2}).first, few);
}

TEST(RegNet, APassThatNoNumberHoldsTakesMoreThanAnyMachineHas) {
  const ModelFamily family = regnet_family();
  ModelShape shape = shape_of("regnety_128gf", 10);
  shape.config["image_size"] = 4096;
  const PassShape pass{.rows = 1 << 24, .recompute_every = 0};
  EXPECT_EQ(family.activation_bytes(shape, pass).computed, 1'000'000'000'000'000'000);
}

}  // namespace
}  // namespace zero::regnet_test
