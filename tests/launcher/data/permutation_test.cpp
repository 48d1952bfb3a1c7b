#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "launcher/data/sampler.h"

namespace zero::data::permutation_test {
namespace {

std::vector<int64_t> shuffled(int64_t n, uint64_t seed, uint64_t epoch = 0) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < n; ++i) order.push_back(shuffled_place(i, n, seed, epoch));
  return order;
}

bool is_bijection(const std::vector<int64_t>& order) {
  std::vector<bool> seen(order.size());
  for (int64_t value : order) {
    if (value < 0 || value >= std::ssize(order)) return false;
    if (seen[static_cast<size_t>(value)]) return false;
    seen[static_cast<size_t>(value)] = true;
  }
  return true;
}

TEST(PermutationTest, IsABijectionForEverySmallSize) {
  for (int64_t n = 1; n <= 300; ++n) {
    for (uint64_t seed : {0u, 1u, 42u, 4294967295u}) {
      ASSERT_TRUE(is_bijection(shuffled(n, seed, 7))) << "n " << n << " seed " << seed;
    }
  }
}

TEST(PermutationTest, IsABijectionAroundPowersOfTwo) {
  for (int64_t power : {1 << 10, 1 << 11, 1 << 16, 1 << 17}) {
    for (int64_t n : {power - 1, power, power + 1}) {
      ASSERT_TRUE(is_bijection(shuffled(n, 3, 1))) << "n " << n;
    }
  }
}

TEST(PermutationTest, DependsOnSeedAndEpochAlone) {
  EXPECT_EQ(shuffled(1000, 5, 2), shuffled(1000, 5, 2));
  EXPECT_NE(shuffled(1000, 5, 2), shuffled(1000, 5, 3));
  EXPECT_NE(shuffled(1000, 5, 2), shuffled(1000, 6, 2));
  EXPECT_NE(shuffled(1000, 5, 6), shuffled(1000, 6, 5));
}

// The order is part of a checkpoint's promise: a resumed run must meet the same one.
TEST(PermutationTest, KeepsItsOrderFromReleaseToRelease) {
  EXPECT_EQ(shuffled(8, 1, 0), (std::vector<int64_t>{5, 0, 3, 7, 4, 1, 6, 2}));
}

TEST(PermutationTest, ReachesAllOrdersOfASmallRange) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t epoch = 0; epoch < 2000; ++epoch) orders.insert(shuffled(5, 1, epoch));
  EXPECT_EQ(orders.size(), 120u);
}

// Counts where number 0 lands: each of 10 places 1,000 times, give or take five sigma.
TEST(PermutationTest, TreatsAllPlacesAlike) {
  std::vector<int64_t> hits(10);
  for (uint64_t seed = 0; seed < 10000; ++seed)
    ++hits[static_cast<size_t>(shuffled_place(0, 10, seed, 0))];
  for (int64_t count : hits) EXPECT_NEAR(static_cast<double>(count), 1000, 150);
}

// Independent orders agree in one place on average; neighbours stay neighbours twice.
TEST(PermutationTest, LooksShuffled) {
  const auto order = shuffled(10000, 9), next = shuffled(10000, 9, 1);
  int num_equal = 0, num_neighbours = 0;
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    num_equal += order[i] == next[i];
    num_neighbours += std::abs(order[i] - order[i + 1]) == 1;
  }
  EXPECT_LT(num_equal, 10);
  EXPECT_LT(num_neighbours, 15);
}

TEST(PermutationTest, CoversRangesThatNoTableWouldFit) {
  for (int64_t n : {(int64_t{1} << 40) + 1, std::numeric_limits<int64_t>::max()}) {
    std::set<int64_t> values;
    for (int64_t i = 0; i < 1000; ++i)
      values.insert(shuffled_place(n - 1 - i * (n / 1000), n, 1, 0));
    EXPECT_EQ(values.size(), 1000u);
    EXPECT_GE(*values.begin(), 0);
    EXPECT_LT(*values.rbegin(), n);
  }
}

}  // namespace
}  // namespace zero::data::permutation_test
