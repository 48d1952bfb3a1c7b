#include "checkpoint/ranges.h"

#include <gmock/gmock.h>

namespace zero::checkpoint {

bool operator==(const Range& a, const Range& b) {
  return a.begin == b.begin && a.bytes == b.bytes;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RangesTest, GapsAreWhatNobodyTook) {
  EXPECT_THAT(gaps_between({{30, 10}, {10, 5}}, 50),
              ElementsAre(Range{0, 10}, Range{15, 15}, Range{40, 10}));
  EXPECT_THAT(gaps_between({}, 8), ElementsAre(Range{0, 8}));
  EXPECT_THAT(gaps_between({{0, 4}, {4, 4}}, 8), IsEmpty());
  EXPECT_THAT(gaps_between({}, 0), IsEmpty());
}

TEST(CoverageTest, PartsJoinInAnyOrder) {
  Coverage coverage;
  EXPECT_EQ(coverage.first_gap(), 0);
  EXPECT_TRUE(coverage.add(4, 6));
  EXPECT_EQ(coverage.first_gap(), 0);
  EXPECT_TRUE(coverage.add(0, 2));
  EXPECT_EQ(coverage.first_gap(), 2);
  EXPECT_TRUE(coverage.add(8, 9));
  EXPECT_TRUE(coverage.add(2, 4));
  EXPECT_EQ(coverage.first_gap(), 6);
  EXPECT_TRUE(coverage.add(6, 8));
  EXPECT_EQ(coverage.first_gap(), 9);
}

TEST(CoverageTest, NothingIsCoveredTwice) {
  Coverage coverage;
  coverage.add(2, 4);
  coverage.add(6, 8);
  for (int64_t begin = 0; begin < 10; ++begin) {
    for (int64_t end = begin + 1; end < 10; ++end) {
      const bool is_new = end <= 2 || (begin >= 4 && end <= 6) || begin >= 8;
      EXPECT_EQ(Coverage(coverage).add(begin, end), is_new) << begin << " " << end;
    }
    EXPECT_TRUE(coverage.add(begin, begin));
  }
}

}  // namespace
}  // namespace zero::checkpoint
