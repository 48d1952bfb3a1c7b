// How families start their parameters, against what transformers drew for the same
// models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "examples/models/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/examples/references.h"
#include "zero/deferred_init.h"

namespace zero::first_values_test {
namespace {

using nlohmann::json;

struct Sample {
  std::vector<float> values;
  double mean = 0, std = 0;
};

Sample drawn(const InitSpec& spec, const std::string& fqn, int64_t numel) {
  Sample sample;
  sample.values.resize(numel);
  fill(spec, /*seed=*/1, fqn, 0, sample.values);
  double sum = 0, squares = 0;
  for (const double value : sample.values) sum += value, squares += value * value;
  const auto n = static_cast<double>(numel);
  sample.mean = sum / n;
  sample.std = std::sqrt(std::max(0.0, squares / n - sample.mean * sample.mean));
  return sample;
}

// Smirnov's distance of two samples, of which one is told by its quantiles.
double distance(Sample sample, const std::vector<double>& quantiles) {
  std::ranges::sort(sample.values);
  const auto n = static_cast<double>(sample.values.size());
  double largest = 0;
  for (size_t k = 1; k + 1 < quantiles.size(); ++k) {
    const auto below = std::ranges::lower_bound(sample.values, quantiles[k]);
    const double share = static_cast<double>(below - sample.values.begin()) / n;
    largest = std::max(
        largest, std::abs(share - static_cast<double>(k) / (quantiles.size() - 1.0)));
  }
  return largest;
}

void expect_alike(const Sample& ours, const json& theirs) {
  const double std = theirs["std"];
  const auto n = static_cast<double>(ours.values.size());
  if (std == 0) {
    EXPECT_EQ(ours.mean, theirs["mean"]);
    EXPECT_EQ(ours.std, 0);
    return;
  }
  // Five standard errors of a difference, and one in a million for the distance.
  EXPECT_NEAR(ours.mean, theirs["mean"], 5 * std * std::sqrt(2 / n));
  EXPECT_NEAR(ours.std, std, 5 * std / std::sqrt(n));
  EXPECT_LT(distance(ours, theirs["quantiles"]), 2.7 * std::sqrt(2 / n));
}

class FirstValuesOf : public ::testing::TestWithParam<const char*> {};

TEST_P(FirstValuesOf, AreThoseOfTransformers) {
  const json model = read_json("first_values.json")[GetParam()];
  const ModelFamily family = family_of(model["config"]);
  const json config = launcher::complete_config(family, model["config"]);
  const ModelShape shape = launcher::shape_of(family, config, {});
  const InitRules rules = family.init_rules(shape);
  const DeferredInit no_memory;
  const auto made = family.make(shape);
  std::map<std::string, int64_t> numel, rows;
  for (const auto& item : made->module()->named_parameters()) {
    numel[item.key()] = item.value().numel();
    rows[item.key()] = item.value().size(0);
  }
  ASSERT_FALSE(model["parameters"].empty());
  for (const auto& [name, theirs] : model["parameters"].items()) {
    SCOPED_TRACE(name);
    const bool is_renamed =
        name == "lm_head.weight" && numel.contains("embed_out.weight");
    const std::string fqn = is_renamed ? "embed_out.weight" : name;
    ASSERT_TRUE(numel.contains(fqn));
    const InitSpec spec = rule_for(rules, fqn);
    const Sample ours = drawn(spec, fqn, numel[fqn]);
    expect_alike(ours, theirs);
    if (theirs["std"] == 0) continue;
    const std::vector<int64_t> zero_rows = theirs["zero_rows"];
    const int64_t width = numel[fqn] / rows[fqn];
    for (int64_t row = 0; row < rows[fqn]; ++row) {
      const bool is_zero = std::all_of(ours.values.begin() + row * width,
                                       ours.values.begin() + (row + 1) * width,
                                       [](float value) { return value == 0; });
      EXPECT_EQ(is_zero, std::ranges::count(zero_rows, row) > 0) << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, FirstValuesOf,
                         ::testing::Values("gpt2", "gptj", "gpt_neox", "llama", "mistral",
                                           "qwen2", "qwen3"),
                         [](const auto& family) { return std::string(family.param); });

}  // namespace
}  // namespace zero::first_values_test
