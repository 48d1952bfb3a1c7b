#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/comm/collectives.h"
#include "engine/device/host_device.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::comm_traced_test {
namespace {

using ::testing::ElementsAre;

class CallTraceTest : public ::testing::Test {
 protected:
  CallTraceTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "trace.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~CallTraceTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Ranks> traced() {
    auto ranks = make_one_rank();
    ranks->trace_to(folder_ / "trace");
    return ranks;
  }
  std::vector<std::string> lines() const {
    std::ifstream file(folder_ / "trace");
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }

  std::filesystem::path folder_;
};

TEST_F(CallTraceTest, ALinePerCall) {
  auto ranks = traced();
  int64_t count = 5;
  ranks->all_reduce(std::span(&count, 1), ReduceOp::kSum, "norm");
  ranks->broadcast(&count, 8, 0, "nonce");
  ranks->gather("four");
  ranks->barrier("end");
  EXPECT_THAT(lines(), ElementsAre("0 all_reduce norm 8", "1 broadcast nonce 8",
                                   "2 all_reduce longest of the texts 8",
                                   "3 all_gather texts 12", "4 barrier end 0"));
}

TEST_F(CallTraceTest, ALinePerCollective) {
  auto comm = traced()->make_collectives();
  auto stream = make_inline_stream("comm");
  float values[4] = {1, 2, 3, 4}, shard[4] = {};
  double losses[2] = {5, 6};
  comm->all_gather(values, shard, 16, "blocks.0", *stream);
  comm->reduce_scatter(values, shard, 4, DType::kBf16, SumOrder::kTree, "blocks.1",
                       *stream);
  comm->all_reduce(losses, SumOrder::kTree, "losses", *stream);
  EXPECT_THAT(lines(),
              ElementsAre("0 all_gather blocks.0 16", "1 reduce_scatter blocks.1 8",
                          "2 all_reduce losses 16"));
}

TEST_F(CallTraceTest, PartsWriteToTheSameFile) {
  auto ranks = traced();
  ranks->barrier("whole");
  ranks->split(0)->barrier("part");
  ranks->duplicate()->barrier("duplicate");
  EXPECT_THAT(lines(), ElementsAre("0 barrier whole 0", "0 barrier part 0",
                                   "0 barrier duplicate 0"));
}

TEST_F(CallTraceTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THROW(make_one_rank()->trace_to(folder_ / "absent" / "trace"), Error);
}

TEST_F(CallTraceTest, WhatIsThereStays) {
  std::ofstream(folder_ / "trace") << "theirs\n";
  EXPECT_THROW(traced(), Error);
  EXPECT_THAT(lines(), ElementsAre("theirs"));
  std::filesystem::create_symlink(folder_ / "nowhere", folder_ / "link");
  EXPECT_THROW(make_one_rank()->trace_to(folder_ / "link"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nowhere"));
}

}  // namespace
}  // namespace zero::comm_traced_test
