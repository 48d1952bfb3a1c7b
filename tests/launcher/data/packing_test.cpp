#include "launcher/data/packing.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace zero::data::packing_test {
namespace {

using ::testing::ElementsAre;

// 4 fills the row of 6, not that of 5.
TEST(Packing, PutsEachIntoTheFullestRowThatHasRoom) {
  const Packing packing = pack_best_fit(std::vector<int64_t>{4, 6, 5, 1}, 10);
  EXPECT_THAT(packing.order, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(packing.begins, ElementsAre(0, 2, 4));
}

TEST(Packing, RowsComeInTheOrderOfTheirFirstItems) {
  const Packing packing = pack_best_fit(std::vector<int64_t>{1, 5, 4, 5}, 5);
  EXPECT_THAT(packing.order, ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(packing.begins, ElementsAre(0, 2, 3, 4));
}

TEST(Packing, AloneEachItemIsARow) {
  const Packing packing = pack_alone(3);
  EXPECT_THAT(packing.order, ElementsAre(0, 1, 2));
  EXPECT_EQ(packing.num_rows(), 3);
  EXPECT_THAT(packing.row(1), ElementsAre(1));
}

// Lengths of texts as they are found.
TEST(Packing, LeavesLessThanThreePercentEmpty) {
  constexpr int64_t kItems = 20000, kLength = 2048;
  std::mt19937 random(1);
  std::lognormal_distribution<double> distribution(std::log(400.0), 1.0);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < kItems; ++i)
    lengths.push_back(
        std::clamp<int64_t>(std::llround(distribution(random)), 1, kLength));
  const Packing packing = pack_best_fit(lengths, kLength);
  std::vector<bool> seen(kItems);
  for (int64_t row = 0; row < packing.num_rows(); ++row) {
    int64_t sum = 0;
    for (const int64_t item : packing.row(row)) {
      EXPECT_FALSE(seen[item]);
      seen[item] = true;
      sum += lengths[item];
    }
    EXPECT_LE(sum, kLength);
  }
  EXPECT_EQ(std::ranges::count(seen, true), kItems);
  const auto all =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}));
  EXPECT_GE(all / static_cast<double>(packing.num_rows() * kLength), 0.97);
  const size_t bytes = 8 * (packing.order.size() + packing.begins.size());
  EXPECT_LE(bytes, 16 * kItems);
}

}  // namespace
}  // namespace zero::data::packing_test
