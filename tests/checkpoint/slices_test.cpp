#include "checkpoint/slices.h"

#include "support.h"

namespace zero::checkpoint::testing::slices_test {
namespace {

// Reports of ranks that hold these ranges of a tensor "w" of 10 elements.
std::vector<ShardReport> reports_of(
    const std::vector<std::pair<int64_t, int64_t>>& parts) {
  std::vector<ShardReport> reports;
  for (const auto& [begin, numel] : parts) {
    ShardReport report;
    report.rank = static_cast<int>(reports.size());
    report.world_size = static_cast<int>(parts.size());
    report.tensors = {{Kind::kParam, "w", DType::kFp32, {2, 5}}};
    if (numel > 0) {
      report.tensors[0].pieces = {
          {shard_file(report.rank, report.world_size), begin, 4096, numel * 4, {1}}};
    }
    reports.push_back(report);
  }
  return reports;
}

std::string error_for(const std::vector<std::pair<int64_t, int64_t>>& parts) {
  return error_of([&] { join_slices(reports_of(parts)); });
}

TEST(SlicesTest, JoinsPiecesInTheOrderOfTheTensor) {
  const auto tensors = join_slices(reports_of({{6, 4}, {0, 6}, {3, 0}}));
  ASSERT_EQ(tensors.size(), 1u);
  ASSERT_EQ(tensors[0].pieces.size(), 2u);
  EXPECT_EQ(tensors[0].pieces[0].file, shard_file(1, 3));
  EXPECT_EQ(tensors[0].pieces[1].begin, 6);
  EXPECT_EQ(tensors[0].pieces[1].bytes, 16);
}

TEST(SlicesTest, GapsNameTheTensorAndTheElements) {
  EXPECT_EQ(error_for({{0, 4}, {5, 5}}),
            "w: params: nobody has elements 4 to 4; rank 1 has the next");
  EXPECT_EQ(error_for({{0, 4}, {4, 5}}), "w: params: nobody has elements 9 to 9");
  EXPECT_EQ(error_for({{0, 0}, {0, 0}}), "w: params: nobody has elements 0 to 9");
}

TEST(SlicesTest, OverlapsNameTheRanks) {
  EXPECT_EQ(error_for({{0, 6}, {5, 5}}),
            "w: params: rank 0 and rank 1 both have element 5");
}

TEST(SlicesTest, RanksMustAgreeAboutShapeAndType) {
  auto reports = reports_of({{0, 5}, {5, 5}});
  reports[1].tensors[0].shape = {10};
  EXPECT_EQ(error_of([&] { join_slices(reports); }),
            "w: params: rank 0 has fp32 (2, 5), rank 1 has fp32 (10)");
  reports[1].tensors[0].shape = {2, 5};
  reports[1].tensors[0].dtype = DType::kBf16;
  EXPECT_NE(error_of([&] { join_slices(reports); }).find("bf16"), std::string::npos);
}

TEST(SlicesTest, EveryRankMustReportOnce) {
  auto reports = reports_of({{0, 5}, {5, 5}});
  std::swap(reports[0], reports[1]);
  EXPECT_NE(error_of([&] { join_slices(reports); }).find("comes from rank 1"),
            std::string::npos);
  reports = reports_of({{0, 5}, {5, 5}});
  reports.pop_back();
  EXPECT_NE(error_of([&] { join_slices(reports); }).find("comes from rank 0 of 2"),
            std::string::npos);
  EXPECT_THROW(join_slices({}), CheckpointError);
}

}  // namespace
}  // namespace zero::checkpoint::testing::slices_test
