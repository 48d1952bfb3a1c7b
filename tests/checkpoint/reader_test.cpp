#include "checkpoint/reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/disk_roads.h"
#include "checkpoint/ranges.h"
#include "read_calls.h"
#include "support.h"

namespace zero::checkpoint::testing::reader_test {
namespace {

namespace fs = std::filesystem;

class ReaderTest : public CheckpointTest {};

TEST_F(ReaderTest, ReadsUnderAnyWorldSize) {
  const TestModel model = small_model();
  for (int writers = 1; writers <= 4; ++writers) {
    const auto path = save(model, {.step = writers, .world_size = writers});
    for (int readers = 1; readers <= 4; ++readers) expect_holds(path, model, readers);
  }
}

TEST_F(ReaderTest, RanksThatOwnNothingStillHaveAFile) {
  const TestModel model = {make_tensor(Kind::kParam, "w", DType::kFp32, {3})};
  const auto path = save(model, {.world_size = 8});
  EXPECT_TRUE(fs::exists(path + "/" + shard_file(7, 8)));
  expect_holds(path, model, 2);
}

TEST_F(ReaderTest, AnEmptyModelIsACheckpoint) { EXPECT_TRUE(holds(save({}), {})); }

TEST_F(ReaderTest, ReadsAnyRangeAcrossChunksAndPieces) {
  const int64_t numel = 3 * kChunkBytes / 4 + 1234;  // of 4 bytes: three chunks and more
  const TestModel model = {make_tensor(Kind::kParam, "w", DType::kFp32, {numel})};
  Reader reader(save(model, {.world_size = 2}));
  for (const int64_t begin : {int64_t{0}, int64_t{1}, numel / 2 - 1, kChunkBytes / 4}) {
    for (const int64_t count : {int64_t{1}, kChunkBytes / 4, numel - begin}) {
      std::vector<char> read(static_cast<size_t>(count * 4));
      reader.read(Kind::kParam, "w", begin, count, read.data());
      EXPECT_EQ(std::memcmp(read.data(), model[0].bytes.data() + begin * 4, read.size()),
                0)
          << begin << " " << count;
    }
  }
}

// Many chunks, of which each rank's part begins and ends within one.
TestModel large_model() {
  TestModel model;
  for (const Kind kind : {Kind::kParam, Kind::kExpAvg}) {
    model.push_back(make_tensor(kind, "w", DType::kFp32, {9 * kChunkBytes / 4 + 1234}));
    model.push_back(make_tensor(kind, "norm", DType::kFp32, {33}));
  }
  return model;
}

std::vector<Wanted> wanted_of(const std::vector<Slice>& slices,
                              std::vector<std::vector<char>>& values) {
  std::vector<Wanted> all;
  values.clear();
  for (const Slice& slice : slices) {
    auto& out = values.emplace_back(static_cast<size_t>(slice.num_bytes()));
    all.push_back(
        {slice.tensor.kind, slice.tensor.fqn, slice.begin, slice.numel, out.data()});
  }
  return all;
}

bool are_of(const std::vector<Slice>& slices,
            const std::vector<std::vector<char>>& values) {
  return std::ranges::equal(slices, values, [](const Slice& slice, const auto& read) {
    return std::memcmp(slice.data, read.data(), read.size()) == 0;
  });
}

// From now on, as if that had been found out.
void find_direct_faster(const std::string& path) {
  DiskRoads& roads = DiskRoads::of(Folder(path).open(kManifestFile));
  roads.next(2 * DiskRoads::kTrialBytes);
  roads.tell(Road::kDirect, int64_t{1} << 50, 0);
  roads.tell(Road::kCached, 1, 1);
}

TEST_F(ReaderTest, ManyRangesAreReadByManyThreads) {
  const TestModel model = large_model();
  const auto path = save(model, {.world_size = 3});
  for (int i = 0; i < 2; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::vector<Slice> slices = slices_of(model, rank, 2);
      std::vector<std::vector<char>> values;
      Reader(path).read_alone(wanted_of(slices, values));
      EXPECT_TRUE(are_of(slices, values)) << rank;
    }
    find_direct_faster(path);
  }
}

// Blocks that one process reads past the cache and another one through it, or past it as
// well, would come from the disk twice. What goes through it stays there.
TEST_F(ReaderTest, TheDiskGivesEachByteToOneOfTheRanks) {
  const TestModel model = large_model();
  const auto path = save(model, {.world_size = 1});
  find_direct_faster(path);
  const WatchedReads reads;
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<Slice> slices = slices_of(model, rank, 3);
    std::vector<std::vector<char>> values;
    Reader(path).read_alone(wanted_of(slices, values));
    EXPECT_TRUE(are_of(slices, values));
  }
  Coverage direct;
  int64_t direct_bytes = 0;
  const std::vector<ReadCall> calls = reads.calls();
  const auto is_block = [](int64_t at) { return at % File::kBlockBytes == 0; };
  for (const auto& [file, begin, end, is_direct] : calls) {
    if (!is_direct) continue;
    EXPECT_TRUE(is_block(begin) && is_block(end));
    EXPECT_TRUE(direct.add(begin, end)) << begin << " was read twice";
    direct_bytes += end - begin;
  }
  const uint64_t shard = std::ranges::max(calls, {}, &ReadCall::end).file;
  for (const auto& [file, begin, end, is_direct] : calls) {
    if (is_direct || file != shard) continue;
    const int64_t first = begin / File::kBlockBytes * File::kBlockBytes;
    const int64_t last =
        (end + File::kBlockBytes - 1) / File::kBlockBytes * File::kBlockBytes;
    EXPECT_TRUE(Coverage(direct).add(first, last)) << begin << " was read directly, too";
  }
  if (direct_bytes == 0) GTEST_SKIP() << "no direct reads here";
  EXPECT_GE(direct_bytes, 16 * kChunkBytes) << "all but the chunks at the cuts";
}

TEST_F(ReaderTest, WhatIsKeptOtherwiseIsGivenInParts) {
  const TestModel model = large_model();
  Reader reader(save(model, {.world_size = 2}));
  const int64_t begin = 77, numel = 5 * kChunkBytes / 4;
  std::vector<float> values(numel);
  reader.read_alone({{Kind::kParam, "w", begin, numel, nullptr,
                      [&](int64_t first, int64_t count, const void* from) {
                        std::memcpy(values.data() + first, from, count * 4);
                      }}});
  EXPECT_EQ(std::memcmp(values.data(), model[0].bytes.data() + begin * 4, numel * 4), 0);
}

// Whichever thread comes upon what first.
TEST_F(ReaderTest, OfManyDamagesTheFirstIsTold) {
  const TestModel model = large_model();
  const auto path = save(model, {.world_size = 1});
  const Manifest manifest = Reader(path).manifest();
  const Piece& moments = manifest.find(Kind::kExpAvg, "w")->pieces.at(0);
  std::string bytes = read_file(path + "/" + moments.file);
  for (const int64_t chunk : {3, 4, 7})
    bytes[static_cast<size_t>(moments.offset + chunk * kChunkBytes + 5)] ^= 1;
  bytes[static_cast<size_t>(manifest.find(Kind::kExpAvg, "norm")->pieces.at(0).offset)] ^=
      1;
  write_file(path + "/" + moments.file, bytes);
  const std::vector<Slice> slices = slices_of(model, 0, 1);
  const std::string first = std::to_string(moments.offset + 3 * kChunkBytes);
  find_direct_faster(path);
  const WatchedReads reads;  // nothing is cached
  for (int i = 0; i < 20; ++i) {
    std::vector<std::vector<char>> values;
    const std::vector<Wanted> all = wanted_of(slices, values);
    const std::string error = error_of([&] { Reader(path).read_alone(all); });
    EXPECT_NE(
        error.find(moments.file + ": w: exp_avg is damaged: bytes " + first + " to"),
        std::string::npos)
        << error;
  }
}

TEST_F(ReaderTest, AManifestOfAHundredMegabytesForFewValuesIsNotRead) {
  const auto path = save(small_model(), {});
  std::string text = "{\"x\":[0";
  for (int i = 0; i < 10'000'000; ++i) text += ",0";
  std::ofstream(path + "/" + kManifestFile) << text << "]}";
  EXPECT_NE(error_of([&] { Reader reader(path); }).find("the most is"),
            std::string::npos);
}

TEST_F(ReaderTest, AliasesReadTheirParameter) {
  const TestModel model = small_model();
  Reader reader(save(model, {.aliases = {{"lm_head.weight", "wte.weight"}}}));
  EXPECT_EQ(reader.read_all(Kind::kParam, "lm_head.weight"), model[0].bytes);
  EXPECT_EQ(reader.manifest().aliases.at("lm_head.weight"), "wte.weight");
}

TEST_F(ReaderTest, ManifestTellsTheRun) {
  const Reader reader(save(small_model(), {.step = 5,
                                           .world_size = 3,
                                           .config = R"({"lr":0.1})",
                                           .position = R"({"sample":12})",
                                           .engine = {{"loss_scale", 1024}}}));
  EXPECT_EQ(reader.manifest().step, 5);
  EXPECT_EQ(reader.manifest().world_size, 3);
  EXPECT_EQ(reader.manifest().config, R"({"lr":0.1})");
  EXPECT_EQ(reader.manifest().position, R"({"sample":12})");
  EXPECT_EQ(reader.manifest().engine.at("loss_scale"), 1024);
}

TEST_F(ReaderTest, WrongRequestsAreNamed) {
  Reader reader(save(small_model()));
  float out[4];
  const auto error = [&](const std::string& fqn, int64_t begin, int64_t numel) {
    return error_of([&] { reader.read(Kind::kParam, fqn, begin, numel, out); });
  };
  EXPECT_NE(error("nobody", 0, 1).find("nobody: is not among"), std::string::npos);
  for (const auto& [begin, numel] : std::vector<std::pair<int64_t, int64_t>>{
           {407, 1}, {-1, 1}, {0, -1}, {406, 2}, {INT64_MAX, INT64_MAX}}) {
    EXPECT_NE(error("wte.weight", begin, numel).find("wte.weight: has 407 elements"),
              std::string::npos);
  }
}

TEST_F(ReaderTest, AMissingShardIsNamed) {
  const auto path = save(small_model(), {.world_size = 4});
  fs::remove(path + "/" + shard_file(2, 4));
  EXPECT_EQ(error_of([&] { Reader reader(path); }),
            path + "/shard_00002_of_00004.h5: is missing; use another checkpoint");
}

TEST_F(ReaderTest, AShardTooManyIsNamed) {
  const auto path = save(small_model(), {.world_size = 4});
  for (const auto& name : {shard_file(4, 5), shard_file(4, 4), shard_file(0, 3)}) {
    fs::copy_file(path + "/" + shard_file(0, 4), path + "/" + name);
    EXPECT_NE(error_of([&] { Reader reader(path); }).find(name), std::string::npos);
    fs::remove(path + "/" + name);
  }
  EXPECT_NO_THROW(Reader{path});
}

TEST_F(ReaderTest, WhatIsNoRegularFileIsNotRead) {
  const auto path = save(small_model());
  for (const auto& name : {shard_file(1, 2), std::string(kManifestFile)}) {
    const std::string file = path + "/" + name;
    fs::rename(file, run + "/aside");
    fs::create_symlink(run + "/aside", file);
    EXPECT_NE(error_of([&] { Reader reader(path); }).find(name), std::string::npos);
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0644), 0);
    EXPECT_NE(error_of([&] { Reader reader(path); }).find(name), std::string::npos);
    fs::remove(file);
    fs::rename(run + "/aside", file);
  }
}

TEST_F(ReaderTest, AShardOfAnotherCheckpointIsFound) {
  const auto path = save(small_model(1), {.step = 1});
  const auto other = save(small_model(2), {.step = 2});
  fs::copy_file(other + "/" + shard_file(1, 2), path + "/" + shard_file(1, 2),
                fs::copy_options::overwrite_existing);
  Reader reader(path);  // the same sizes
  const std::string error = error_of([&] { reader.read_all(Kind::kExpAvgSq, "scale"); });
  EXPECT_NE(error.find("shard_00001_of_00002.h5: scale: exp_avg_sq is damaged"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace zero::checkpoint::testing::reader_test
