#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "offload/convert.h"
#include "offload/optimizer.h"
#include "offload/thread_pool.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"
#include "tests/offload/torch_adamw_vectors.h"

namespace zero::adamw_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_equal_bits(const AdamState& found, const AdamState& expected) {
  EXPECT_EQ(bits_of(found.master), bits_of(expected.master));
  EXPECT_EQ(bits_of(found.exp_avg), bits_of(expected.exp_avg));
  EXPECT_EQ(bits_of(found.exp_avg_sq), bits_of(expected.exp_avg_sq));
  EXPECT_EQ(found.copy, expected.copy);
}

std::vector<float> grad_of_step(int64_t numel, int64_t step) {
  return spread_values(numel, 1000 + static_cast<uint64_t>(step), 4.0f);
}

// `num_steps` steps of our AdamW on weights of seed 1.
AdamState trained(int64_t numel, int64_t num_steps, ThreadPool& pool,
                  const AdamHyper& hyper) {
  AdamState state(uniform_values(numel, 1, 0.125f));
  for (int64_t step = 1; step <= num_steps; ++step) {
    adam_step(state.piece(grad_of_step(numel, step)), hyper, step, 0.7f, pool);
  }
  return state;
}

// One step on a single weight of 1 whose moments are zero.
AdamState after_one_step(float grad, const AdamHyper& hyper, int64_t step = 1) {
  ThreadPool pool(1);
  AdamState state({1.0f});
  adam_step(state.piece({grad}), hyper, step, 1.0f, pool);
  return state;
}

// ---- the specification, bit for bit

class AdamSizeTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(AdamSizeTest, TenStepsHaveTheReferencesBitsOnAnyNumberOfThreads) {
  const int64_t numel = GetParam();
  const AdamHyper hyper{.lr = 3e-3, .weight_decay = 0.1};
  AdamState expected(uniform_values(numel, 1, 0.125f));
  for (int64_t step = 1; step <= 10; ++step) {
    adam_step_reference(expected, grad_of_step(numel, step), hyper, step, 0.7f);
  }
  for (const int num_threads : {1, 2, 4}) {
    ThreadPool pool(num_threads);
    expect_equal_bits(trained(numel, 10, pool, hyper), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdamSizeTest,
                         ::testing::Values(1, 22, 55, 64, 128, 1024, 100003, 1048576));

TEST(AdamWTest, BitsAreThoseOfEveryOtherCompiler) {
  ThreadPool pool(2);
  const AdamState state = trained(4099, 10, pool, {.lr = 3e-3, .weight_decay = 0.1});
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over words
  const auto mix = [&](uint64_t word) { hash = (hash ^ word) * 0x100000001b3u; };
  for (const uint32_t word : bits_of(state.master)) mix(word);
  for (const uint32_t word : bits_of(state.exp_avg)) mix(word);
  for (const uint32_t word : bits_of(state.exp_avg_sq)) mix(word);
  for (const uint16_t word : state.copy) mix(word);
  EXPECT_EQ(hash, 0x65784a9fcc14e39cu);  // g++ 12 and clang++ 14, -O2 and -O3
}

TEST(AdamWTest, BitsDoNotDependOnPosition) {
  ThreadPool pool(1);
  AdamState state(std::vector<float>(133, 0.3f));
  for (int64_t step = 1; step <= 3; ++step) {
    adam_step(state.piece(std::vector<float>(133, -0.017f)), {}, step, 1.0f, pool);
  }
  EXPECT_THAT(bits_of(state.master), Each(bits_of(state.master)[0]));
  EXPECT_THAT(bits_of(state.exp_avg_sq), Each(bits_of(state.exp_avg_sq)[0]));
}

TEST(AdamWTest, AnyAlignmentAndSplitIntoPiecesGivesTheSameBits) {
  ThreadPool pool(2);
  const std::vector<float> grad = grad_of_step(1000, 1);
  AdamState whole(uniform_values(1000, 1, 0.125f)), split = whole;
  adam_step(whole.piece(grad), {}, 1, 1.0f, pool);

  int64_t begin = 0;
  for (const int64_t numel : {1, 2, 5, 64, 331, 597}) {
    adam_step({.grad = grad.data() + begin,
               .master = split.master.data() + begin,
               .state = {split.exp_avg.data() + begin, split.exp_avg_sq.data() + begin},
               .copy_bf16 = split.copy.data() + begin,
               .numel = numel},
              {}, 1, 1.0f, pool);
    begin += numel;
  }
  ASSERT_EQ(begin, 1000);
  expect_equal_bits(split, whole);
}

TEST(AdamWTest, Bf16GradientsCountAsTheFloatsTheyAre) {
  ThreadPool pool(2);
  std::vector<float> grad = grad_of_step(100003, 1);
  std::vector<uint16_t> grad_bf16(grad.size());
  convert_to_bf16(grad.data(), grad_bf16.data(), 100003);
  std::transform(grad_bf16.begin(), grad_bf16.end(), grad.begin(), bf16_to_float);

  AdamState from_float(uniform_values(100003, 1, 0.125f)), from_bf16 = from_float;
  UpdatePiece piece = from_bf16.piece(grad);
  piece.grad = nullptr;
  piece.grad_bf16 = grad_bf16.data();
  adam_step(piece, {}, 1, 0.5f, pool);
  adam_step(from_float.piece(grad), {}, 1, 0.5f, pool);
  expect_equal_bits(from_bf16, from_float);
}

TEST(AdamWTest, TheCopyMayBeLeftOut) {
  ThreadPool pool(1);
  const std::vector<float> grad = grad_of_step(77, 1);
  AdamState with(uniform_values(77, 1, 0.125f)), without = with;
  UpdatePiece piece = without.piece(grad);
  piece.copy_bf16 = nullptr;
  adam_step(with.piece(grad), {}, 1, 1.0f, pool);
  adam_step(piece, {}, 1, 1.0f, pool);
  EXPECT_EQ(bits_of(without.master), bits_of(with.master));
  EXPECT_THAT(without.copy, Each(0));
}

TEST(AdamWTest, TheCallersRoundingModeChangesNothing) {
  for (const int num_threads : {1, 2}) {
    ThreadPool pool(num_threads);
    const std::vector<float> grad = grad_of_step(200000, 3);
    AdamState expected(uniform_values(200000, 1, 0.125f)), state = expected;
    adam_step(expected.piece(grad), {}, 3, 0.7f, pool);
    std::fesetround(FE_UPWARD);
    adam_step(state.piece(grad), {}, 3, 0.7f, pool);
    std::fesetround(FE_TONEAREST);
    expect_equal_bits(state, expected);
  }
}

// ---- the mathematics

double largest_distance(const std::vector<float>& found,
                        const std::vector<double>& expected) {
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::fabs(found[i] - expected[i]));
  }
  return largest;
}

TEST(AdamWTest, StaysNearDoublePrecision) {
  ThreadPool pool(2);
  const AdamHyper hyper;
  const std::vector<float> weights = uniform_values(1000, 1, 0.0625f);
  AdamState state(weights);
  DoubleAdam exact(weights);
  for (int64_t step = 1; step <= 1000; ++step) {
    const std::vector<float> grad = grad_of_step(1000, step);
    adam_step(state.piece(grad), hyper, step, 1.0f, pool);
    exact.step(grad, hyper, step);
    if (step == 10) {
      EXPECT_LE(largest_distance(state.master, exact.master), 1e-7);
    }
  }
  EXPECT_LE(largest_distance(state.master, exact.master), 5e-6);
}

std::vector<float> floats(const uint32_t* bits, size_t numel) {
  std::vector<float> values(numel);
  for (size_t i = 0; i < numel; ++i) values[i] = std::bit_cast<float>(bits[i]);
  return values;
}

class TorchAdamWTest : public ::testing::TestWithParam<TorchCase> {};

// Tolerances: 1e-7 for weights below 0.1; a few roundings of the largest gradient for
// moments.
TEST_P(TorchAdamWTest, FiveStepsAgree) {
  const TorchCase& torch = GetParam();
  ThreadPool pool(1);
  AdamState state(floats(torch.before.data(), 8));
  double largest_grad = 0;
  for (int64_t step = 1; step <= 5; ++step) {
    const std::vector<float> grad = floats(torch.grads.data() + 8 * (step - 1), 8);
    for (const float g : grad)
      largest_grad = std::max(largest_grad, std::fabs(double{g}));
    adam_step(state.piece(grad), torch.hyper, step, 1.0f, pool);
  }
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(state.master[i], std::bit_cast<float>(torch.master[i]), 1e-7);
    EXPECT_NEAR(state.exp_avg[i], std::bit_cast<float>(torch.exp_avg[i]),
                1e-7 * largest_grad);
    EXPECT_NEAR(state.exp_avg_sq[i], std::bit_cast<float>(torch.exp_avg_sq[i]),
                1e-7 * largest_grad * largest_grad);
  }
}

INSTANTIATE_TEST_SUITE_P(Vectors, TorchAdamWTest,
                         ::testing::Values(kDefaults, kPretraining, kNoDecay));

// With a constant gradient both corrected moments equal it from the first step on, so
// each step moves by lr, and p_k = r^k p_0 - lr (1 - r^k) / (1 - r) with r = 1 - lr *
// weight_decay.
TEST(AdamWTest, ConstantGradientFollowsItsClosedForm) {
  ThreadPool pool(1);
  const AdamHyper hyper{.lr = 1e-3, .eps = 0, .weight_decay = 0.5};
  const double r = 1 - hyper.lr * hyper.weight_decay;
  AdamState state({1.0f});
  for (int64_t step = 1; step <= 1000; ++step) {
    adam_step(state.piece({0.25f}), hyper, step, 1.0f, pool);
    const double shrunk = std::pow(r, static_cast<double>(step));
    ASSERT_NEAR(state.master[0], shrunk - hyper.lr * (1 - shrunk) / (1 - r), 1e-5)
        << step;
  }
}

// Without memory (both betas 0) AdamW is descent by sign: on (p - 3)^2 / 2 from 5 in
// steps of 2^-8 the path is 5 - k / 256, exactly, until it stands on the minimum.
TEST(AdamWTest, QuadraticIsDescendedInEqualSteps) {
  ThreadPool pool(1);
  const AdamHyper hyper{
      .lr = 0x1p-8, .beta1 = 0, .beta2 = 0, .eps = 0, .weight_decay = 0};
  AdamState state({5.0f});
  for (int64_t step = 1; step <= 1000; ++step) {
    adam_step(state.piece({state.master[0] - 3.0f}), hyper, step, 1.0f, pool);
    const float expected = step < 512 ? 5.0f - static_cast<float>(step) * 0x1p-8f : 3.0f;
    ASSERT_EQ(state.master[0], expected) << step;
  }
}

TEST(AdamWTest, MinimumOfAQuadraticIsFound) {
  ThreadPool pool(1);
  AdamState state({5.0f, -2.0f, 3.0f});
  for (int64_t step = 1; step <= 2000; ++step) {
    std::vector<float> grad = state.master;
    for (float& g : grad) g -= 3.0f;
    adam_step(state.piece(grad), {.lr = 0.02, .weight_decay = 0}, step, 1.0f, pool);
  }
  for (const float p : state.master) EXPECT_NEAR(p, 3.0f, 1e-3);
}

// ---- edges

TEST(AdamWTest, ZeroGradientOnlyDecays) {
  const AdamState state = after_one_step(0.0f, {.lr = 0.5, .weight_decay = 0.5});
  EXPECT_EQ(state.master[0], 0.75f);
  EXPECT_EQ(state.exp_avg[0], 0.0f);
  EXPECT_EQ(state.exp_avg_sq[0], 0.0f);
}

TEST(AdamWTest, ZeroLearningRateMovesTheMomentsAlone) {
  const AdamState state = after_one_step(2.0f, {.lr = 0});
  EXPECT_EQ(state.master[0], 1.0f);
  EXPECT_GT(state.exp_avg[0], 0.0f);
  EXPECT_GT(state.exp_avg_sq[0], 0.0f);
}

TEST(AdamWTest, DecayPullsTowardsZero) {
  EXPECT_LT(after_one_step(0.0f, {.weight_decay = 0.1}).master[0], 1.0f);
  EXPECT_EQ(after_one_step(0.0f, {.weight_decay = 0}).master[0], 1.0f);
}

TEST(AdamWTest, WithoutEpsASlotThatSawNothingStays) {
  EXPECT_EQ(after_one_step(0.0f, {.eps = 0, .weight_decay = 0}).master[0], 1.0f);  // 0/0
  EXPECT_EQ(after_one_step(1e-30f, {.eps = 0, .weight_decay = 0}).master[0],
            1.0f);  // m/0
}

TEST(AdamWTest, ExtremeGradientsLeaveFiniteWeights) {
  EXPECT_NEAR(after_one_step(1e-30f, {.weight_decay = 0}).master[0], 1.0f, 1e-6);
  const AdamState huge = after_one_step(1e30f, {.weight_decay = 0});
  EXPECT_EQ(huge.master[0], 1.0f);
  EXPECT_EQ(huge.exp_avg_sq[0], kInfinity);
}

TEST(AdamWTest, AMillionthStepNeedsNoCorrection) {
  const AdamHyper hyper{
      .lr = 0.5, .beta1 = 0.5, .beta2 = 0.75, .eps = 0, .weight_decay = 0};
  EXPECT_EQ(after_one_step(2.0f, hyper, 1000000).master[0], 0.5f);  // m = 1, v = 1
}

TEST(AdamWTest, ANanGradientSpoilsItsSlotAlone) {
  ThreadPool pool(1);
  std::vector<float> grad(100, 0.5f);
  grad[37] = kNan;
  AdamState state(std::vector<float>(100, 1.0f));
  adam_step(state.piece(grad), {}, 1, 1.0f, pool);
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(std::isnan(state.master[i]), i == 37) << i;
    EXPECT_EQ(std::isnan(state.exp_avg[i]), i == 37) << i;
    EXPECT_EQ(std::isnan(state.exp_avg_sq[i]), i == 37) << i;
    EXPECT_EQ(state.copy[i] == 0x7fc0, i == 37) << i;
  }
}

TEST(AdamWTest, AnInfiniteGradientGivesNanWeights) {
  const AdamState state = after_one_step(-kInfinity, {});
  EXPECT_TRUE(std::isnan(state.master[0]));
  EXPECT_EQ(state.exp_avg[0], -kInfinity);
  EXPECT_EQ(state.exp_avg_sq[0], kInfinity);
}

TEST(AdamWTest, APieceMayBeEmpty) {
  ThreadPool pool(2);
  adam_step({}, {}, 1, 1.0f, pool);
}

// ---- wrong input

TEST(AdamWTest, WrongCallsThrowBeforeAnythingChanges) {
  ThreadPool pool(1);
  AdamState state({1.0f});
  const std::vector<float> grad{1.0f};
  const std::vector<uint16_t> grad_bf16{0};
  UpdatePiece both = state.piece(grad), none = both, negative = both;
  both.grad_bf16 = grad_bf16.data();
  none.grad = nullptr;
  negative.numel = -1;
  EXPECT_THROW(adam_step(both, {}, 1, 1.0f, pool), std::invalid_argument);
  EXPECT_THROW(adam_step(none, {}, 1, 1.0f, pool), std::invalid_argument);
  EXPECT_THROW(adam_step(negative, {}, 1, 1.0f, pool), std::invalid_argument);
  EXPECT_THROW(adam_step(state.piece(grad), {}, 0, 1.0f, pool), std::invalid_argument);
  EXPECT_THROW(adam_step(state.piece(grad), {.lr = -1}, 1, 1.0f, pool),
               std::invalid_argument);
  EXPECT_EQ(state.master[0], 1.0f);
}

}  // namespace
}  // namespace zero::adamw_test
