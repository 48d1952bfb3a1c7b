#include "launcher/bench/row.h"

#include <gmock/gmock.h>

namespace zero::launcher {
namespace {

TEST(BenchRow, TellsMediansBytesAndTheLimit) {
  Row row = {{"name", "update"}, {"threads", 2}};
  add_result(row, {4, 2, 8}, 8'000'000'000, "sweep", {2, 2, 2});
  EXPECT_EQ(row.dump(), R"({"name":"update","threads":2,"seconds":4.0,"gb_per_s":2.0,)"
                        R"("limit":"sweep","limit_seconds":2.0,"ratio_to_limit":0.5})");
}

TEST(BenchRow, WithoutBytesThereIsNoRate) {
  Row row;
  add_result(row, {4}, 0, "none", {2});
  EXPECT_FALSE(row.contains("gb_per_s"));
}

TEST(BenchRow, ATableHasTheColumnsOfAllRowsAligned) {
  const Row sum = {{"name", "sum"}, {"threads", 1}, {"seconds", 0.123456}};
  const Row update = {{"name", "update"}, {"threads", 16}, {"gb_per_s", 20.5}};
  EXPECT_EQ(to_table({sum, update}),
            "name    threads  seconds  gb per s\n"
            "sum           1   0.1235\n"
            "update       16               20.5\n");
}

}  // namespace
}  // namespace zero::launcher
