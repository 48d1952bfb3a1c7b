#include "offload/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "offload/thread_pool.h"
#include "offload/update.h"
#include "tests/offload/test_data.h"

namespace zero::optimizer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Slot {
  float p = 0, state = 0;
};

// One step on one weight of a rule with one state.
Slot step(Slot slot, float grad, const OptimizerOptions& options, double lr,
          float grad_factor = 1) {
  ThreadPool pool(1);
  const Update one{{.grad = &grad, .master = &slot.p, .state = {&slot.state}, .numel = 1},
                   make_rule(options, lr, 1, grad_factor)};
  update({&one, 1}, pool);
  return slot;
}

// ---- against torch

// Five steps of torch.optim.SGD and Adagrad by torch 2.11.0 on a CPU, foreach=False, all
// floats as their bits. torch multiplies and adds in one rounding here and there, so the
// last bits may differ.
struct TorchCase {
  OptimizerOptions options;
  double lr;
  std::array<uint32_t, 6> before;
  std::array<uint32_t, 30> grads;  // (5 steps, 6)
  std::array<uint32_t, 6> master, state;
};

const TorchCase kSgd{
    .options = {.kind = Optimizer::kSgd, .weight_decay = 0.1, .momentum = 0.9},
    .lr = 0.01,
    .before = {0x3e1dcc4a, 0xbcf06080, 0xbe5f1ba8, 0x3d68d457, 0xbdde1c35, 0xbe0f3757},
    .grads = {0x3e908f3c, 0x3f162ca0, 0xbf00e416, 0xbe908eee, 0xbed5d588, 0x00000000,
              0xbf19841e, 0x3f453a70, 0xbf3ff4ef, 0x3dafe78d, 0xbecaf7db, 0x00000000,
              0xbf1fd876, 0xbf87374f, 0x3e84bfc1, 0x3f8280ac, 0x3f2869f8, 0x00000000,
              0x3e098831, 0x3f6278d6, 0xbf673ef7, 0xbf0dc3ff, 0xbc6f7667, 0x00000000,
              0x3eb9e121, 0xbf6b3435, 0x3e099f40, 0x3ec2877d, 0xbfc6cd79, 0x00000000},
    .master = {0x3e2ff97f, 0xbd6eeb24, 0xbe23d140, 0x3d335e2f, 0xbda08df9, 0xbe0d5691},
    .state = {0xbe55771c, 0xbd4e7b30, 0xbfb68d33, 0x3f1b83db, 0xbfd189e5, 0xbd699c66},
};

const TorchCase kNesterov{
    .options = {.kind = Optimizer::kSgd,
                .weight_decay = 0,
                .momentum = 0.8,
                .nesterov = true},
    .lr = 0.01,
    .before = {0xbdd2e20d, 0xbd4d1c53, 0x3cdff15f, 0xbdbc06e2, 0xbb8473ab, 0x3cec067a},
    .grads = {0xbbace344, 0xbf23e0a9, 0xbf4312ff, 0xbe3f18a3, 0x3e07c75b, 0x00000000,
              0x3fb85c34, 0xbccb1f8c, 0x3d33d3d2, 0xbf095274, 0x3f44fc57, 0x00000000,
              0x3dfb4943, 0xbf26edb8, 0xbf86e452, 0xbeece56a, 0x3f6d1e24, 0x00000000,
              0xbe4c3916, 0xbdbf4d55, 0x3fa99ad3, 0x400b5ff1, 0xbea44a00, 0x00000000,
              0xbf8cabb6, 0x3f5caf53, 0x3f79eb02, 0x3f51dc8e, 0x3e9b5ee5, 0x00000000},
    .master = {0xbe054a89, 0xbca0ae20, 0x3d10189f, 0xbdf81173, 0xbd74d7d3, 0x3cec067a},
    .state = {0xbee3b408, 0x3dc2c4e0, 0x3f893cf1, 0x3ff516a4, 0x3f8b3e25, 0x00000000},
};

const TorchCase kAdagrad{
    .options = {.kind = Optimizer::kAdagrad, .eps = 1e-10, .weight_decay = 0.1},
    .lr = 0.05,
    .before = {0xbe08cfb7, 0x3db5ad62, 0x3d9d4717, 0x3bbb25db, 0x3cb7777b, 0x3d6215a7},
    .grads = {0xbecf70f2, 0x3c4b405c, 0x3dbcfc7c, 0x3f36be01, 0xbea025a5, 0x00000000,
              0xbf2ee2ba, 0x3efee84c, 0xbf07dfca, 0xbee6a901, 0xbee794bd, 0x00000000,
              0xbf9f5e46, 0x3f17e62b, 0x3e304ab5, 0xbdbc0ad2, 0xbdffec6b, 0x00000000,
              0x3e444f51, 0x3ecb8b77, 0xbef13d6b, 0xbf58bf8a, 0x3f70db7e, 0x00000000,
              0xbecb054a, 0xbf4eba66, 0xbfe034c7, 0x3f1ce663, 0xbfef763a, 0x00000000},
    .master = {0x3bf759df, 0xbd1ab1c3, 0x3e0d2ea3, 0x3a0ee680, 0x3dfcd4b0, 0x35018248},
    .state = {0x401a1f35, 0x3fb5de79, 0x4064b627, 0x3fe967b5, 0x4095f2e3, 0x3800eddf},
};

class TorchTest : public ::testing::TestWithParam<const TorchCase*> {};

TEST_P(TorchTest, WhatTorchDoesComesOut) {
  const TorchCase& torch = *GetParam();
  for (size_t i = 0; i < torch.before.size(); ++i) {
    Slot slot{std::bit_cast<float>(torch.before[i])};
    for (size_t k = 0; k < 5; ++k)
      slot = step(slot, std::bit_cast<float>(torch.grads[6 * k + i]), torch.options,
                  torch.lr);
    const auto p = std::bit_cast<float>(torch.master[i]);
    const auto state = std::bit_cast<float>(torch.state[i]);
    EXPECT_NEAR(slot.p, p, 4e-7 * std::fabs(p) + 1e-8) << i;
    EXPECT_NEAR(slot.state, state, 4e-7 * std::fabs(state) + 1e-9) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, TorchTest,
                         ::testing::Values(&kSgd, &kNesterov, &kAdagrad));

// ---- the specifications, by another road: each operation in fp64, then rounded

float f(double value) { return static_cast<float>(value); }

Slot sgd_reference(Slot s, float grad, double lr, const OptimizerOptions& o,
                   float grad_factor) {
  const float g =
      f(double{f(double{grad} * grad_factor)} + f(double{s.p} * f(o.weight_decay)));
  s.state = f(double{f(double{s.state} * f(o.momentum))} + g);
  const float ahead = f(double{g} + f(double{s.state} * f(o.momentum)));
  s.p = f(double{s.p} - f(double{f(lr)} * (o.nesterov ? ahead : s.state)));
  return s;
}

Slot lion_reference(Slot s, float grad, double lr, const OptimizerOptions& o,
                    float grad_factor) {
  const float g = f(double{grad} * grad_factor);
  const float c =
      f(double{f(double{s.state} * f(o.beta1))} + f(double{g} * f(1 - o.beta1)));
  const float sign = static_cast<float>((c > 0) - (c < 0));
  s.p = f(double{f(double{s.p} * f(1 - lr * o.weight_decay))} - double{f(lr)} * sign);
  s.state = f(double{f(double{s.state} * f(o.beta2))} + f(double{g} * f(1 - o.beta2)));
  return s;
}

Slot adagrad_reference(Slot s, float grad, double lr, const OptimizerOptions& o,
                       float grad_factor) {
  const float g =
      f(double{f(double{grad} * grad_factor)} + f(double{s.p} * f(o.weight_decay)));
  s.state = f(double{s.state} + f(double{g} * g));
  const float d = f(double{f(std::sqrt(double{s.state}))} + f(o.eps));
  if (d != 0) s.p = f(double{s.p} - f(double{f(double{f(lr)} * g)} / d));
  return s;
}

TEST(OptimizerTest, EverySpecificationIsKeptBitForBit) {
  using Reference = Slot (*)(Slot, float, double, const OptimizerOptions&, float);
  const auto expect_same = [](OptimizerOptions options, Reference reference) {
    options.weight_decay = 0.3;
    Slot found{0.7f}, expected = found;
    for (const float grad : spread_values(200, 7, 4.0f)) {
      found = step(found, grad, options, 0.013, 0.7f);
      expected = reference(expected, grad, 0.013, options, 0.7f);
      ASSERT_EQ(std::bit_cast<uint32_t>(found.p), std::bit_cast<uint32_t>(expected.p));
      ASSERT_EQ(found.state, expected.state);
    }
  };
  expect_same({.kind = Optimizer::kSgd}, sgd_reference);
  expect_same({.kind = Optimizer::kSgd, .nesterov = true}, sgd_reference);
  expect_same({.kind = Optimizer::kLion, .beta2 = 0.99}, lion_reference);
  expect_same({.kind = Optimizer::kAdagrad, .eps = 1e-10}, adagrad_reference);
}

// ---- edges

TEST(OptimizerTest, ASlotWithoutGradientsStaysWhereItIs) {
  for (const Optimizer kind : {Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad}) {
    const Slot slot = step({0.5f}, 0, {.kind = kind, .eps = 0, .weight_decay = 0}, 0.1);
    EXPECT_EQ(slot.p, 0.5f) << name_of(kind);
    EXPECT_EQ(slot.state, 0) << name_of(kind);
  }
}

TEST(OptimizerTest, ANanGradientIsNotHidden) {
  for (const Optimizer kind : {Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad}) {
    const Slot slot = step({0.5f}, kNan, {.kind = kind}, 0.1);
    EXPECT_TRUE(std::isnan(slot.p)) << name_of(kind);
    EXPECT_TRUE(std::isnan(slot.state)) << name_of(kind);
  }
}

TEST(OptimizerTest, TheCallersRoundingModeChangesNothing) {
  const auto scalars = [] {
    return std::get<LionRule>(make_rule({.kind = Optimizer::kLion}, 0.1, 1, 1)).decay;
  };
  const float expected = scalars();
  std::fesetround(FE_UPWARD);
  const float found = scalars();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(found, expected);
}

// ---- names

TEST(OptimizerTest, NamesGoBothWays) {
  for (const Optimizer kind :
       {Optimizer::kAdamW, Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad})
    EXPECT_EQ(optimizer_named(name_of(kind)), kind);
  EXPECT_EQ(optimizer_named("adam"), std::nullopt);
}

TEST(OptimizerTest, StatesHaveTorchsNames) {
  EXPECT_THAT(states_of(Optimizer::kAdamW), ElementsAre("exp_avg", "exp_avg_sq"));
  EXPECT_THAT(states_of(Optimizer::kSgd), ElementsAre("momentum_buffer"));
  EXPECT_THAT(states_of(Optimizer::kLion), ElementsAre("exp_avg"));
  EXPECT_THAT(states_of(Optimizer::kAdagrad), ElementsAre("sum"));
}

TEST(OptimizerTest, EveryRuleHasAsManyStatesAsNames) {
  for (const Optimizer kind :
       {Optimizer::kAdamW, Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad}) {
    const int num_states = std::visit([](const auto& rule) { return rule.kNumStates; },
                                      make_rule({.kind = kind}, 0.1, 1, 1));
    EXPECT_EQ(states_of(kind).size(), num_states) << name_of(kind);
    EXPECT_LE(num_states, kMaxStates);
  }
}

// ---- wrong input

std::string complaint(const OptimizerOptions& options, double lr = 1e-3) {
  try {
    check(options, lr);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(OptimizerTest, ComplaintsNameFieldValueAndRange) {
  EXPECT_EQ(complaint({}), "");
  EXPECT_EQ(
      complaint({.beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0, .momentum = 0}, 0),
      "");
  EXPECT_EQ(complaint({}, -1), "lr is -1, must be in [0, 3.4e38]");
  EXPECT_EQ(complaint({.beta1 = 1}), "beta1 is 1, must be in [0, 1)");
  EXPECT_EQ(complaint({.beta2 = -0.5}), "beta2 is -0.5, must be in [0, 1)");
  EXPECT_EQ(complaint({.eps = -1e-8}), "eps is -1e-08, must be in [0, 3.4e38]");
  EXPECT_EQ(complaint({.weight_decay = -0.1}),
            "weight_decay is -0.1, must be in [0, 3.4e38]");
  EXPECT_EQ(complaint({.momentum = 1}), "momentum is 1, must be in [0, 1)");
  EXPECT_EQ(complaint({.momentum = 0, .nesterov = true}),
            "momentum is 0, must be in (0, 1) with nesterov");
}

TEST(OptimizerTest, NanAndInfinityAreRefusedEverywhere) {
  for (const double bad : {double{kNan}, double{kInfinity}, double{-kInfinity}}) {
    EXPECT_THAT(complaint({}, bad), HasSubstr("lr"));
    EXPECT_THAT(complaint({.beta1 = bad}), HasSubstr("beta1"));
    EXPECT_THAT(complaint({.beta2 = bad}), HasSubstr("beta2"));
    EXPECT_THAT(complaint({.eps = bad}), HasSubstr("eps"));
    EXPECT_THAT(complaint({.weight_decay = bad}), HasSubstr("weight_decay"));
    EXPECT_THAT(complaint({.momentum = bad}), HasSubstr("momentum"));
  }
}

TEST(OptimizerTest, StepsCountFromOne) {
  EXPECT_THROW(make_rule({}, 1e-3, 0, 1), std::invalid_argument);
}

}  // namespace
}  // namespace zero::optimizer_test
