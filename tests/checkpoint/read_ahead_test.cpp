#include <gtest/gtest.h>

#include "checkpoint/ranges.h"

namespace zero::checkpoint::read_ahead_test {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kWindow = ReadAhead::kWindowBytes;

void expect_range(Range range, int64_t begin, int64_t bytes) {
  EXPECT_EQ(range.bytes, bytes);
  if (bytes > 0) {
    EXPECT_EQ(range.begin, begin);
  }
}

TEST(ReadAheadTest, AsksForTheOwnBytesOfARequestThatStandsAlone) {
  ReadAhead ahead;
  expect_range(ahead.before(100 * kMiB, 102 * kMiB), 100 * kMiB, 2 * kMiB);
  expect_range(ahead.before(101 * kMiB, 102 * kMiB), 0, 0);
  expect_range(ahead.before(200 * kMiB, 200 * kMiB + 99'999), 200 * kMiB, 99'999);
  expect_range(ahead.before(50 * kMiB, 51 * kMiB), 50 * kMiB, kMiB);  // backwards
}

TEST(ReadAheadTest, KeepsAWindowBeforeALongRequest) {
  ReadAhead ahead;
  const int64_t end = kWindow + 3 * kMiB / 2;
  expect_range(ahead.before(0, end), 0, kWindow);
  expect_range(ahead.before(kMiB / 2, end), 0, 0);  // no calls for crumbs
  expect_range(ahead.before(kMiB, end), kWindow, kMiB);
  expect_range(ahead.before(2 * kMiB, end), kWindow + kMiB, kMiB / 2);
  expect_range(ahead.before(3 * kMiB, end), 0, 0);
}

TEST(ReadAheadTest, LooksBehindARequestThatFollowsTheOneBefore) {
  ReadAhead ahead;
  expect_range(ahead.before(0, kMiB), 0, kMiB);
  expect_range(ahead.before(kMiB, 2 * kMiB), kMiB, kWindow);
  expect_range(ahead.before(2 * kMiB + 100, 3 * kMiB), kMiB + kWindow, kMiB + 100);
  expect_range(ahead.before(90 * kMiB, 91 * kMiB), 90 * kMiB, kMiB);
}

TEST(ReadAheadTest, LetsAFewBytesElsewhereChangeNothing) {
  ReadAhead ahead;
  ahead.before(0, kMiB);
  expect_range(ahead.before(500 * kMiB, 500 * kMiB + 4096), 0, 0);
  expect_range(ahead.before(kMiB, 2 * kMiB), kMiB, kWindow);
}

}  // namespace
}  // namespace zero::checkpoint::read_ahead_test
