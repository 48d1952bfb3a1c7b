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

}  // namespace
}  // namespace zero::checkpoint
