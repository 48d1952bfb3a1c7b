#include "checkpoint/writer.h"

#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "checkpoint/io.h"
#include "checkpoint/verify.h"
#include "support.h"

namespace zero::checkpoint::testing::writer_test {
namespace {

class WriterTest : public CheckpointTest {
 protected:
  std::string write_error(const std::vector<Slice>& slices, int rank = 0) {
    std::string folder = prepare(OpenRun(run), 1);
    const std::string error = error_of([&] { write_shard(folder, rank, 2, slices); });
    discard(OpenRun(run), folder);
    return error;
  }

  const float values[4] = {1, 2, 3, 4};
};

TEST_F(WriterTest, BadSlicesAreNamed) {
  const Slice good{{Kind::kParam, "w", DType::kFp32, {8}}, 0, 4, values};
  EXPECT_EQ(
      write_error({good, good}),
      "w: params: rank 0 gives this name twice; store a tied tensor once and record "
      "its other names as aliases");
  Slice bad = good;
  bad.begin = 5;
  EXPECT_EQ(write_error({bad}),
            "w: params: rank 0 has 4 elements from 5, the shape (8) has 8");
  bad.begin = -1;
  EXPECT_EQ(write_error({bad}),
            "w: params: rank 0 has 4 elements from -1, the shape (8) has 8");
  bad = good;
  bad.tensor.shape = {-8};
  EXPECT_EQ(write_error({bad}), "w: params: the shape (-8) is not possible");
  bad = good;
  bad.tensor.fqn = "a/b";
  EXPECT_NE(write_error({bad}).find("'/'"), std::string::npos);
  bad = good;
  bad.tensor.kind = Kind::kBuffer;
  EXPECT_NE(write_error({bad}).find("let rank 0 alone give it, whole"),
            std::string::npos);
  bad.tensor.shape = {4};
  EXPECT_NE(write_error({bad}, 1).find("let rank 0 alone give it"), std::string::npos);
}

class CountingIo : public Io {
 public:
  int num_syncs = 0;
  int fsync(int file) override {
    ++num_syncs;
    return Io::fsync(file);
  }
};

TEST_F(WriterTest, AFewMebibytesAreSyncedOnce) {
  const TestModel model = {
      make_tensor(Kind::kParam, "w", DType::kFp32, {3 * kChunkBytes / 4})};
  CountingIo io;
  write_shard(prepare(OpenRun(run), 1), 0, 1, slices_of(model, 0, 1), io);
  EXPECT_EQ(io.num_syncs, 1);
}

TEST_F(WriterTest, ManyMebibytesAreSyncedOnTheWay) {
  constexpr int64_t kNumel = (kSyncBytes + 8 * kChunkBytes) / 4;
  Slice slice{{Kind::kParam, "w", DType::kFp32, {kNumel}}, 0, kNumel};
  slice.fetch = [](int64_t, int64_t count, void* to) { std::memset(to, 0, count * 4); };
  NoDisk io;
  ShardWriter writer(prepare(OpenRun(run), 1), 0, 1, {slice}, io);
  writer.write(0);
  EXPECT_EQ(io.num_syncs, 1);
}

int num_pieces = 0;

TEST_F(WriterTest, EachPieceThatIsWrittenOrReadIsASignOfWork) {
  const TestModel model = small_model(1);
  set_work_listener([](int64_t) { ++num_pieces; });
  save(model, {.step = 1});
  const int num_written = num_pieces;
  EXPECT_GE(num_written, static_cast<int>(model.size()));
  verify(newest_complete(run)->path);
  EXPECT_GE(num_pieces, 2 * num_written - 1);
  set_work_listener(nullptr);
}

TEST_F(WriterTest, TheSameNameMayBeOfSeveralKinds) {
  const TestModel model = {make_tensor(Kind::kParam, "w", DType::kFp32, {4}),
                           make_tensor(Kind::kBuffer, "w", DType::kFp32, {5})};
  EXPECT_TRUE(holds(save(model), model));
}

TEST_F(WriterTest, LargeSlicesStartOnPages) {
  const TestModel model = {make_tensor(Kind::kParam, "a", DType::kFp32, {5000}),
                           make_tensor(Kind::kParam, "b", DType::kFp32, {5001}),
                           make_tensor(Kind::kParam, "c", DType::kFp32, {3})};
  std::string folder = prepare(OpenRun(run), 1);
  const auto report = write_shard(folder, 0, 1, slices_of(model, 0, 1));
  EXPECT_EQ(report.tensors[0].pieces[0].offset % kAlignment, 0);
  EXPECT_EQ(report.tensors[1].pieces[0].offset % kAlignment, 0);
}

TEST_F(WriterTest, SlicesMayBeFetched) {
  const TestModel model = {make_tensor(Kind::kParam, "a", DType::kFp32, {700}),
                           make_tensor(Kind::kParam, "b", DType::kFp32, {300000})};
  auto slices = slices_of(model, 0, 1);
  for (auto& slice : slices) {
    const char* data = static_cast<const char*>(std::exchange(slice.data, nullptr));
    slice.fetch = [data](int64_t first, int64_t count, void* to) {
      std::memcpy(to, data + first * 4, static_cast<size_t>(count) * 4);
    };
  }
  std::string folder = prepare(OpenRun(run), 1);
  const auto report = write_shard(folder, 0, 1, slices);
  EXPECT_TRUE(holds(commit(OpenRun(run), folder, {report}, {.step = 1}), model));
}

TEST_F(WriterTest, AShardThatAnotherProgramMakesLongerIsNamed) {
  const TestModel model = {make_tensor(Kind::kParam, "a", DType::kFp32, {700})};
  std::string folder = prepare(OpenRun(run), 1);
  auto slices = slices_of(model, 0, 1);
  slices[0].data = nullptr;
  slices[0].fetch = [&](int64_t, int64_t count, void* to) {
    std::memset(to, 0, static_cast<size_t>(count) * 4);
    const std::filesystem::path shard = folder + "/" + shard_file(0, 1);
    std::filesystem::resize_file(shard, std::filesystem::file_size(shard) + (1 << 20));
  };
  EXPECT_NE(error_of([&] { write_shard(folder, 0, 1, slices); }).find("another program"),
            std::string::npos);
}

TEST_F(WriterTest, RanksMayBeThreadsOfOneProcess) {
  const TestModel model = small_model();
  for (int step = 0; step < 10; ++step) {
    std::string folder = prepare(OpenRun(run), step);
    std::vector<ShardReport> reports(4);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&, rank] {
        reports[static_cast<size_t>(rank)] =
            write_shard(folder, rank, 4, slices_of(model, rank, 4));
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(holds(commit(OpenRun(run), folder, reports, {.step = step}), model));
  }
}

TEST_F(WriterTest, AMissingFolderPointsAtTheDisk) {
  EXPECT_NE(error_of([&] { write_shard(run + "/gone", 0, 1, {}); }).find("/gone"),
            std::string::npos);
}

}  // namespace
}  // namespace zero::checkpoint::testing::writer_test
