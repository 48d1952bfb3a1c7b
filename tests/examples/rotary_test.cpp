#include "examples/models/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "examples/models/config_reader.h"
#include "tests/examples/references.h"
#include "zero/errors.h"
#include "zero/layers.h"

namespace zero::rotary_test {
namespace {

using nlohmann::json;

// Each table of tests/references/rotary.json, gptj's apart.
class RotaryTables : public ::testing::TestWithParam<std::string> {
 protected:
  const json references_ = read_json("rotary.json");
  const json table_ = references_["tables"][GetParam()];

  RotaryOptions options() const {
    const json& rope = table_["rope_parameters"];
    const json config = {{"rope_parameters", rope},
                         {"max_position_embeddings", table_["max_position_embeddings"]}};
    const auto head_dim = table_["head_dim"].get<double>();
    return read_rotary(
        ConfigReader(config, "test"),
        static_cast<int64_t>(head_dim * rope.value("partial_rotary_factor", 1.0)));
  }
};

TEST_P(RotaryTables, FrequenciesAreTransformersBitForBit) {
  const at::Tensor expected = to_tensor(table_["inv_freq"]).to(torch::kFloat32);
  EXPECT_TRUE(torch::equal(rotary_frequencies(options()), expected));
}

TEST_P(RotaryTables, AnglesAreTransformers) {
  const at::Tensor positions = to_tensor(references_["positions"]).to(torch::kInt64);
  RotaryTable table(options());
  for (const auto& [type, suffix, bound] :
       {std::tuple(torch::kFloat32, "", 1e-6), {torch::kBFloat16, "_bf16", 0.0}}) {
    const RotaryAngles& angles = table.angles(100001, torch::empty({0}, type));
    for (const auto& [name, values] :
         {std::pair("cos", angles.cos), {"sin", angles.sin}}) {
      const at::Tensor expected = to_tensor(table_[name + std::string(suffix)]).to(type);
      EXPECT_LE(largest_difference(values.index_select(0, positions), expected), bound)
          << name << suffix;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RotaryTables,
                         ::testing::Values("default", "default_theta_500000",
                                           "default_theta_1000000", "linear", "llama3",
                                           "llama3_factor_32", "yarn", "yarn_betas",
                                           "yarn_not_truncated", "yarn_attention_factor",
                                           "yarn_mscale", "yarn_long_ramp",
                                           "yarn_no_ramp_at_0", "yarn_no_ramp_at_2",
                                           "gpt_neox"),
                         [](const auto& info) { return info.param; });

RotaryOptions read(const json& rope) {
  const json config = {{"rope_parameters", rope}, {"max_position_embeddings", 64}};
  return read_rotary(ConfigReader(config, "test"), 8);
}

TEST(Rotary, TypesThatAreNotHereAreRefusedByName) {
  for (const char* type : {"dynamic", "longrope", "proportional", "su"}) {
    try {
      read({{"rope_type", type}, {"factor", 2.0}});
      ADD_FAILURE() << type;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_NE(error.problem().find(type), std::string::npos) << error.problem();
    }
  }
}

TEST(Rotary, NonsenseIsRefused) {
  EXPECT_THROW(read({{"rope_type", 3}}), Error);
  EXPECT_THROW(read(json::array()), Error);
  EXPECT_THROW(read({{"rope_type", "linear"}}), Error) << "no factor";
  EXPECT_THROW(read({{"rope_type", "linear"}, {"factor", "2"}}), Error);
  EXPECT_THROW(read({{"rope_type", "linear"}, {"factor", 0}}), Error);
  EXPECT_THROW(read({{"rope_type", "default"}, {"rope_theta", -1}}), Error);
  EXPECT_THROW(read({{"rope_type", "yarn"}, {"factor", 4}, {"rope_theta", 1}}), Error)
      << "a logarithm of 0";
  EXPECT_THROW(read({{"rope_type", "llama3"},
                     {"factor", 8},
                     {"low_freq_factor", 4},
                     {"high_freq_factor", 1}}),
               Error);
}

json modern(json config) {
  modernise_rotary(config);
  return config["rope_parameters"];
}

// In the order of precedence that transformers has.
// As transformers: one of the two alone counts for nothing.
// As many times as the positions that the model has are more than those of its training.
TEST(Rotary, YarnWithoutAFactorStretchesToAllPositions) {
  const auto factor_of = [](const json& rope) {
    const json config = {{"rope_parameters", rope}, {"max_position_embeddings", 8192}};
    return read_rotary(ConfigReader(config, "test"), 16).factor;
  };
  json rope = {{"rope_type", "yarn"},
               {"rope_theta", 10000.0},
               {"original_max_position_embeddings", 2048}};
  EXPECT_EQ(factor_of(rope), 4);
  rope["factor"] = 3.0;
  EXPECT_EQ(factor_of(rope), 3);
}

TEST(Rotary, AnMscaleNeedsTheOther) {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 40.0}};
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    json rope = yarn;
    rope[key] = 2.0;
    EXPECT_EQ(read(rope).attention_factor, 0.1 * std::log(40.0) + 1) << key;
  }
}

// As an evaluation under inference mode leaves them behind.
TEST(Rotary, AnglesMayBeKeptForGradientsWhoeverAskedFirst) {
  RotaryOptions options;
  options.dim = 4;
  RotaryTable table(options);
  const at::Tensor like = torch::zeros({1});
  {
    const c10::InferenceMode inference;
    table.angles(3, like);
  }
  const at::Tensor x = torch::ones({1, 1, 3, 4}).requires_grad_();
  const RotaryAngles& angles = table.angles(3, like);
  rotate_halves(x, angles.cos, angles.sin).sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST(Rotary, OldKeysBecomeOne) {
  EXPECT_EQ(modern({{"rope_theta", 5.0}}), (json{{"rope_theta", 5.0}}));
  EXPECT_EQ(modern({{"rope_theta", 5.0}, {"rope_scaling", nullptr}}),
            (json{{"rope_theta", 5.0}, {"rope_type", "default"}}));
  EXPECT_EQ(modern({{"rope_theta", 5.0},
                    {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}),
            (json{{"rope_theta", 5.0}, {"rope_type", "linear"}, {"factor", 2.0}}));
  EXPECT_EQ(modern({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}},
                    {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}}}),
            (json{{"rope_type", "yarn"}, {"factor", 2.0}}));
  EXPECT_EQ(modern({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}},
                    {"rope_theta", 5.0}}),
            (json{{"rope_type", "default"}, {"rope_theta", 7.0}}));
}

// Pairs turn by their angle: lengths stay, and so does what is behind the rotated part.
TEST(Rotary, PairsTurnByTheirAngle) {
  RotaryTable table({.dim = 4});
  const at::Tensor x = torch::arange(1, 7, torch::kFloat32).view({1, 1, 1, 6});
  const at::Tensor two = at::cat({x, x}, 2);  // positions 0 and 1
  const RotaryAngles angles = table.angles(2, x);
  const double c0 = std::cos(1.0), s0 = std::sin(1.0), c1 = std::cos(0.01),
               s1 = std::sin(0.01);
  const at::Tensor halves = rotate_halves(two, angles).view({2, 6});
  EXPECT_TRUE(torch::equal(halves[0], x.flatten()));
  EXPECT_LT(largest_difference(halves[1],
                               torch::tensor({1 * c0 - 3 * s0, 2 * c1 - 4 * s1,
                                              3 * c0 + 1 * s0, 4 * c1 + 2 * s1, 5., 6.})),
            1e-6);
  const at::Tensor neighbours = rotate_neighbours(two, angles).view({2, 6});
  EXPECT_TRUE(torch::equal(neighbours[0], x.flatten()));
  EXPECT_LT(largest_difference(neighbours[1],
                               torch::tensor({1 * c0 - 2 * s0, 2 * c0 + 1 * s0,
                                              3 * c1 - 4 * s1, 4 * c1 + 3 * s1, 5., 6.})),
            1e-6);
}

}  // namespace
}  // namespace zero::rotary_test
