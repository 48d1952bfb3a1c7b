#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/comm/communicator.h"
#include "engine/comm/self_communicator.h"
#include "engine/comm/traced_communicator.h"
#include "engine/device/host_device.h"
#include "engine/errors.h"

namespace zero {
namespace {

using testing::ElementsAre;

class TracedCommunicatorTest : public testing::Test {
 protected:
  TracedCommunicatorTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "trace.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~TracedCommunicatorTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Communicator> traced() {
    return make_traced_communicator(make_self_communicator(), folder_ / "trace");
  }
  std::vector<std::string> lines() const {
    std::ifstream file(folder_ / "trace");
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }

  std::filesystem::path folder_;
  std::unique_ptr<HostStream> stream_ = make_inline_stream("comm");
};

TEST_F(TracedCommunicatorTest, WritesALinePerCall) {
  auto comm = traced();
  float values[4] = {1, 2, 3, 4}, shard[4] = {};
  int64_t count = 5;
  comm->all_gather(values, shard, 16, "blocks.0", *stream_);
  comm->reduce_scatter(values, shard, 4, WireType::kBf16, "blocks.1", *stream_);
  comm->all_reduce(std::span(&count, 1), ReduceOp::kSum, "norm", *stream_);
  comm->broadcast(&count, 8, 0, "nonce", *stream_);
  comm->barrier("end", *stream_);
  EXPECT_THAT(lines(), ElementsAre("0 all_gather blocks.0 16",
                                   "1 reduce_scatter blocks.1 8", "2 all_reduce norm 8",
                                   "3 broadcast nonce 8", "4 barrier end 0"));
}

TEST_F(TracedCommunicatorTest, PartsWriteToTheSameFile) {
  auto comm = traced();
  comm->barrier("whole", *stream_);
  comm->split(0)->barrier("part", *stream_);
  comm->duplicate()->barrier("duplicate", *stream_);
  EXPECT_THAT(lines(), ElementsAre("0 barrier whole 0", "0 barrier part 0",
                                   "0 barrier duplicate 0"));
}

TEST_F(TracedCommunicatorTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THROW(
      make_traced_communicator(make_self_communicator(), folder_ / "absent" / "trace"),
      Error);
}

}  // namespace
}  // namespace zero
