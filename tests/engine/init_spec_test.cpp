#include "zero/init_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "offload/random.h"

namespace zero::init_spec_test {
namespace {

std::vector<float> filled(const InitSpec& spec, int64_t begin, int64_t numel,
                          const std::string& fqn = "a.weight", uint64_t seed = 1) {
  std::vector<float> values(numel);
  fill(spec, seed, fqn, begin, values);
  return values;
}

TEST(InitSpec, AnySliceEqualsTheSameSliceOfTheWhole) {
  for (const InitSpec& spec :
       {normal(0, 0.02), uniform(-1, 1), truncated_normal(0, 1, -2, 2), constant(3)}) {
    const std::vector<float> whole = filled(spec, 0, 1001);
    for (const int64_t begin : {0, 1, 2, 63, 64, 500, 1000}) {
      for (const int64_t numel : {0, 1, 2, 63, 1001 - 1000}) {
        const int64_t count = std::min<int64_t>(numel, 1001 - begin);
        const std::vector<float> part = filled(spec, begin, count);
        EXPECT_EQ(part, std::vector<float>(whole.begin() + begin,
                                           whole.begin() + begin + count))
            << "kind " << static_cast<int>(spec.kind) << " from " << begin;
      }
    }
  }
}

TEST(InitSpec, DependsOnSeedAndName) {
  EXPECT_NE(filled(normal(0, 1), 0, 8), filled(normal(0, 1), 0, 8, "b.weight"));
  EXPECT_NE(filled(normal(0, 1), 0, 8), filled(normal(0, 1), 0, 8, "a.weight", 2));
}

TEST(InitSpec, HasTheRightMoments) {
  const auto moments = [](const std::vector<float>& x) {
    double sum = 0, squares = 0;
    for (const float v : x) sum += v, squares += v * v;
    const double mean = sum / static_cast<double>(x.size());
    return std::pair(mean,
                     std::sqrt(squares / static_cast<double>(x.size()) - mean * mean));
  };
  const int64_t n = 400000;  // five standard errors of the mean: 5 std / sqrt(n)
  auto [mean, std] = moments(filled(normal(1, 0.5), 0, n));
  EXPECT_NEAR(mean, 1, 0.004);
  EXPECT_NEAR(std, 0.5, 0.003);
  std::tie(mean, std) = moments(filled(uniform(-3, 1), 0, n));
  EXPECT_NEAR(mean, -1, 0.01);
  EXPECT_NEAR(std, 4 / std::sqrt(12.0), 0.01);
}

TEST(InitSpec, TruncationHoldsItsBounds) {
  double lowest = 0, highest = 0;
  int64_t num_means = 0;
  for (const float v : filled(truncated_normal(0, 1, -0.5, 0.25), 0, 20000)) {
    ASSERT_GE(v, -0.5f);
    ASSERT_LE(v, 0.25f);
    lowest = std::min<double>(lowest, v), highest = std::max<double>(highest, v);
    num_means += v == 0;
  }
  EXPECT_LT(lowest, -0.49);
  EXPECT_GT(highest, 0.24);
  EXPECT_LT(num_means, 20) << "who falls outside shall not become the mean";
}

// What a seed gives is a promise: what fill_random() makes of the key of seed and name,
// with the spec's own numbers.
TEST(InitSpec, DrawsByTheKeyOfSeedAndName) {
  const auto drawn = [](const Draw& draw) {
    std::vector<float> values(100);
    fill_random(draw, hash_key(1, "a.weight"), 7, values);
    return values;
  };
  EXPECT_EQ(filled(normal(2, 3), 7, 100), drawn(normal_draw(2, 3)));
  EXPECT_EQ(filled(uniform(2, 3), 7, 100), drawn(uniform_draw(2, 3)));
  EXPECT_EQ(filled(truncated_normal(2, 3, -4, 5), 7, 100),
            drawn(truncated_normal_draw(2, 3, -4, 5)));
}

TEST(InitSpec, KaimingIsBoundByTheRootOfFanIn) {
  const InitSpec spec = kaiming_uniform(16);
  EXPECT_EQ(spec.kind, InitSpec::Kind::kUniform);
  EXPECT_DOUBLE_EQ(spec.a, -0.25);
  EXPECT_DOUBLE_EQ(spec.b, 0.25);
  EXPECT_EQ(kaiming_uniform(0).b, 0);
}

TEST(InitSpec, TellsItsNumbersAndItsZeros) {
  EXPECT_EQ(to_string(truncated_normal(0, 0.5, -1, 2)),
            "truncated_normal(0, 0.5, -1, 2)");
  InitSpec spec = uniform(-1, 1);
  EXPECT_EQ(to_string(spec), "uniform(-1, 1)");
  spec.zero_row_begin = 0;
  spec.zero_row_end = 5;
  EXPECT_EQ(to_string(spec), "uniform(-1, 1), zeros from 0 to 5");
}

TEST(InitSpec, ZeroesThePaddingRow) {
  InitSpec spec = normal(0, 1);
  spec.zero_row_begin = 10;
  spec.zero_row_end = 15;
  const std::vector<float> values = filled(spec, 8, 12);
  for (int64_t i = 8; i < 20; ++i) EXPECT_EQ(values[i - 8] == 0, i >= 10 && i < 15) << i;
}

}  // namespace
}  // namespace zero::init_spec_test
