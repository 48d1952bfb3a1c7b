#include "offload/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "offload/kernels.h"
#include "offload/random_loop.h"
#include "tests/offload/test_data.h"

namespace zero::random_test {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr uint64_t kKey = 0x0123456789abcdef;

std::vector<float> filled(const Draw& draw, int64_t begin, int64_t numel,
                          uint64_t key = kKey) {
  std::vector<float> values(numel);
  fill_random(draw, key, begin, values);
  return values;
}

const std::vector<Draw>& draws() {
  static const std::vector<Draw> all = {normal_draw(0.5, 0.02), uniform_draw(-3, 1),
                                        truncated_normal_draw(0, 1, -2, 2),
                                        truncated_normal_draw(0.1, 2, 4, 9)};
  return all;
}

// The words of an element's group, as random_loop.h tells it: element 16 j + i is word j
// of block i.
uint32_t word_of(int64_t element) {
  const int64_t in_group = element % 64;
  const auto block = static_cast<uint64_t>(element / 64 * 16 + in_group % 16);
  return philox(kKey, block, 0)[in_group / 16];
}

double probability_below(double z) { return std::erfc(-z / std::sqrt(2.0)) / 2; }

// Kolmogorov and Smirnov's distance from `below`, in units of 1 / sqrt(n): 1.63 is
// exceeded once in a hundred times.
double distance(std::vector<float> values, const std::function<double(double)>& below) {
  std::ranges::sort(values);
  const auto n = static_cast<double>(values.size());
  double most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = below(values[i]), at = static_cast<double>(i);
    most = std::max({most, expected - at / n, (at + 1) / n - expected});
  }
  return most * std::sqrt(n);
}

double mean_product(const std::vector<float>& a, const std::vector<float>& b,
                    size_t lag = 0) {
  double sum = 0;
  for (size_t i = 0; i + lag < a.size(); ++i) sum += double{a[i]} * b[i + lag];
  return sum / static_cast<double>(a.size() - lag);
}

TEST(RandomTest, EveryInstructionSetGivesTheSameBits) {
  const auto run = [](const Kernels& kernel, const Draw& draw, int64_t begin) {
    std::vector<float> values(5001);
    kernel.fill(draw, kKey, begin, values);
    return bits_of(values);
  };
  for (const Kernels& kernel : kernels()) {
    for (const Draw& draw : draws()) {
      for (const int64_t begin : {int64_t{0}, int64_t{77}, (int64_t{5} << 34) - 99})
        EXPECT_EQ(run(kernel, draw, begin), run(kernels().front(), draw, begin))
            << kernel.isa << ", kind " << draw.index() << " from " << begin;
    }
  }
}

TEST(RandomTest, AnyPieceEqualsTheSamePieceOfTheWhole) {
  for (const Draw& draw : draws()) {
    const std::vector<uint32_t> whole = bits_of(filled(draw, 0, 400));
    for (int64_t begin = 0; begin < 200; ++begin) {
      for (const int64_t numel : {0, 1, 15, 63, 64, 65, 200}) {
        const auto first = whole.begin() + begin;
        ASSERT_EQ(bits_of(filled(draw, begin, numel)),
                  std::vector<uint32_t>(first, first + numel))
            << "kind " << draw.index() << ", " << numel << " from " << begin;
      }
    }
  }
}

// What a seed gives is a promise. Beyond 2^34 elements a block's number needs 33 bits.
TEST(RandomTest, NormalNumbersAreBoxAndMullersPairs) {
  for (const int64_t begin : {int64_t{0}, int64_t{3} << 34}) {
    const std::vector<float> values = filled(normal_draw(2, 3), begin, 64000);
    for (int64_t i = 0; i < 64000; ++i) {
      const bool is_second = i / 16 % 2 == 1;
      const int64_t first = begin + (is_second ? i - 16 : i);
      const double uniform =
          std::ldexp(static_cast<float>(word_of(first) >> 1) + 0.5f, -31);
      const double angle = std::ldexp(2 * kPi * word_of(first + 16), -32);
      const double wave = is_second ? std::sin(angle) : std::cos(angle);
      // Half a step of fp32 at the largest value, and what rounding u does to small
      // radii.
      ASSERT_NEAR(values[i], 2 + 3 * std::sqrt(-2 * std::log(uniform)) * wave, 3e-6) << i;
    }
  }
}

TEST(RandomTest, LogarithmsCosinesAndSinesAreRight) {
  Numbers numbers(3);
  for (int i = 0; i < 200000; ++i) {
    const auto word = static_cast<uint32_t>(numbers.bits());
    const float x = std::ldexp(static_cast<float>(word | 1), -32);
    ASSERT_NEAR(log_of(x), std::log(double{x}), 2.4e-7 * std::abs(std::log(double{x})))
        << x;
    const double angle = std::ldexp(2 * kPi * word, -32);
    const auto [cos, sin] = cos_sin_of(word);
    ASSERT_NEAR(cos, std::cos(angle), 1.2e-7) << word;
    ASSERT_NEAR(sin, std::sin(angle), 1.2e-7) << word;
  }
}

TEST(RandomTest, UniformNumbersAreTheMiddlesOfSteps) {
  const std::vector<float> values = filled(uniform_draw(-1, 1), 0, 6400);
  for (int64_t i = 0; i < 6400; ++i) {
    const auto step = static_cast<int32_t>(word_of(i)) >> 8;
    ASSERT_EQ(values[i], std::ldexp(step + 0.5f, -23)) << i;
  }
}

// As far away as its bounds allow, and on both sides.
TEST(RandomTest, TruncatedNormalNumbersAreQuantiles) {
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{-2, 2},
                                                                        {-40, 40},
                                                                        {1, 30},
                                                                        {-30, -1},
                                                                        {4, 9},
                                                                        {-11, -9},
                                                                        {9, 11},
                                                                        {-0.5, 0.25}}) {
    const TruncatedNormalDraw draw = truncated_normal_draw(0, 1, low, high);
    const double below = probability_below(low), above = probability_below(-high);
    const double inside =
        low > 0 ? probability_below(-low) - above : probability_below(high) - below;
    Numbers numbers(4);
    for (int i = 0; i < 20000; ++i) {
      const auto word = static_cast<uint32_t>(numbers.bits() >> (i % 2 == 0 ? 32 : 48)) ^
                        (i % 4 == 1 ? ~0u : 0);  // every other one near an end
      const double step = std::ldexp((static_cast<int32_t>(word) >> 8) + 0.5, -24);
      const double p = below + inside * (0.5 + step), q = above + inside * (0.5 - step);
      const double z = value_of(draw, word);
      // Of the smaller tail, and through the density, so that it is an error of z.
      const double error = z < 0 ? probability_below(z) - p : q - probability_below(-z);
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * kPi);
      ASSERT_LT(std::abs(error) / density, 4e-6)
          << "at " << z << " in " << low << " to " << high;
    }
  }
}

TEST(RandomTest, ExtremeWordsGiveOrdinaryNumbers) {
  const NormalDraw normal = normal_draw(0, 1);
  for (const uint32_t word : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xfffffffeu, ~0u}) {
    for (const uint32_t turn : {0u, 0x1fffffffu, 0x20000000u, 0x80000000u, ~0u}) {
      const auto [cos, sin] = normal_pair(normal, word, turn);
      EXPECT_LE(std::hypot(cos, sin), 6.67f) << word << ", " << turn;
    }
    for (const auto& [low, high] : std::vector<std::pair<double, double>>{
             {-2, 2}, {-1e30, 1e30}, {3, 4}, {20, 21}, {-21, -20}, {1, 1}}) {
      const float value = value_of(truncated_normal_draw(0, 1, low, high), word);
      EXPECT_TRUE(low <= value && value <= high) << value << " of " << word;
    }
  }
  EXPECT_NEAR(normal_pair(normal, 0, 0).cos, 6.6604, 1e-3) << "the longest tail";
  EXPECT_EQ(normal_pair(normal, ~0u, 0).cos, 0);
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 1}, {-3, 1}, {1, 1}, {16777216, 16777218}, {0.1, 0.10000001}}) {
    for (const uint32_t word : {0x80000000u, 0x7fffffffu, 0u}) {
      const float value = value_of(uniform_draw(low, high), word);
      EXPECT_LE(static_cast<float>(low), value);
      EXPECT_LE(value, static_cast<float>(high));
    }
  }
}

TEST(RandomTest, HasTheRightDistributions) {
  const int64_t n = 1000000;
  EXPECT_LT(distance(filled(normal_draw(1, 2), 5, n),
                     [](double x) { return probability_below((x - 1) / 2); }),
            1.63);
  EXPECT_LT(
      distance(filled(uniform_draw(-3, 1), 5, n), [](double x) { return (x + 3) / 4; }),
      1.63);
  for (const auto& [low, high] :
       std::vector<std::pair<double, double>>{{-2, 2}, {-0.5, 0.25}, {3, 5}}) {
    const double from = probability_below(low);
    const double to = probability_below(high);
    EXPECT_LT(
        distance(filled(truncated_normal_draw(0, 1, low, high), 5, n),
                 [=](double x) { return (probability_below(x) - from) / (to - from); }),
        1.63)
        << low << " to " << high;
  }
}

TEST(RandomTest, NormalTailsAreThere) {
  int64_t num_beyond_4 = 0, num_beyond_5 = 0;
  for (const float value : filled(normal_draw(0, 1), 0, 1 << 24)) {
    num_beyond_4 += std::abs(value) > 4;
    num_beyond_5 += std::abs(value) > 5;
  }
  // Of 2^24 a part of 6.33e-5 and 5.73e-7, each within five standard errors.
  EXPECT_NEAR(static_cast<double>(num_beyond_4), 1063, 165);
  EXPECT_NEAR(static_cast<double>(num_beyond_5), 9.6, 9);
}

TEST(RandomTest, ElementsAndKeysAreIndependent) {
  const int64_t n = 1 << 20;
  const double five_errors = 5 / std::sqrt(static_cast<double>(n));
  const std::vector<float> values = filled(normal_draw(0, 1), 0, n);
  for (const size_t lag : {1, 15, 16, 17, 32, 48, 64, 1024})
    EXPECT_LT(std::abs(mean_product(values, values, lag)), five_errors) << lag;
  for (const uint64_t key : {kKey + 1, kKey ^ uint64_t{1} << 40})
    EXPECT_LT(std::abs(mean_product(values, filled(normal_draw(0, 1), 0, n, key))),
              five_errors);
}

TEST(RandomTest, WithoutADeviationAllIsTheMean) {
  EXPECT_EQ(filled(normal_draw(3, 0), 0, 70), std::vector<float>(70, 3.0f));
  EXPECT_EQ(filled(truncated_normal_draw(3, 0, 0, 3), 0, 70),
            std::vector<float>(70, 3.0f));
  EXPECT_EQ(filled(truncated_normal_draw(9, 0, 0, 3), 0, 70),
            std::vector<float>(70, 3.0f));
  EXPECT_EQ(filled(truncated_normal_draw(1, -2, 0, 3), 0, 70),
            filled(truncated_normal_draw(1, 2, 0, 3), 0, 70));
}

}  // namespace
}  // namespace zero::random_test
