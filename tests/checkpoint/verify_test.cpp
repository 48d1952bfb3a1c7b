#include "checkpoint/verify.h"

#include <sys/fsuid.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support.h"

namespace zero::checkpoint::testing::verify_test {
namespace {

class VerifyTest : public CheckpointTest {};

TEST_F(VerifyTest, ASoundCheckpointIsReadToTheLastByte) {
  const auto path = save(small_model(), {.world_size = 3});
  const auto report = verify(path);
  EXPECT_TRUE(report.is_sound());
  EXPECT_EQ(report.num_files, 5);
  int64_t bytes = 0;
  for (const auto& file : std::filesystem::directory_iterator(path)) {
    bytes += static_cast<int64_t>(file.file_size());
  }
  EXPECT_EQ(report.num_bytes, bytes);
}

// Written when version 1 was the only one; the engine's tests know its values.
TEST_F(VerifyTest, ACheckpointOfVersion1IsSound) {
  const auto report =
      verify(ZERO_SOURCE_DIR "/tests/checkpoint/version_1/step_000000000003");
  EXPECT_TRUE(report.is_sound());
  EXPECT_EQ(report.num_files, 4);
}

TEST_F(VerifyTest, AllDamageIsListed) {
  const auto path = save(small_model(), {.world_size = 3});
  std::filesystem::remove(path + "/" + shard_file(1, 3));
  std::string bytes = read_file(path + "/" + shard_file(2, 3));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path + "/" + shard_file(2, 3), bytes);
  write_file(path + "/" + kVirtualFile, read_file(path + "/" + kVirtualFile) + "x");
  const auto report = verify(path);
  ASSERT_EQ(report.damages.size(), 3u);
  EXPECT_EQ(report.damages[0].file(), path + "/" + kVirtualFile);
  EXPECT_EQ(report.damages[1].file(), path + "/" + shard_file(1, 3));
  EXPECT_EQ(report.damages[2].file(), path + "/" + shard_file(2, 3));
}

TEST_F(VerifyTest, AShardThatIsALinkHidesNoOtherDamage) {
  const auto path = save(small_model(), {.world_size = 3});
  const std::string first = path + "/" + shard_file(0, 3);
  std::filesystem::rename(first, path + "/elsewhere");
  std::filesystem::create_symlink("elsewhere", first);
  std::filesystem::remove(path + "/" + shard_file(1, 3));
  const auto report = verify(path);
  ASSERT_EQ(report.damages.size(), 2u);
  EXPECT_EQ(report.damages[0].file(), first);
  EXPECT_EQ(report.damages[1].file(), path + "/" + shard_file(1, 3));
}

// Read by several threads, told in the order of the files' bytes.
TEST_F(VerifyTest, EveryChunkOfALargeTensorIsRead) {
  constexpr int64_t kNumChunks = 40;
  const auto path =
      save({make_tensor(Kind::kParam, "large", DType::kUint8, {kNumChunks * kChunkBytes}),
            make_tensor(Kind::kParam, "small", DType::kUint8, {9})},
           {.world_size = 1});
  Reader reader(path);
  const Piece& large = reader.manifest().find(Kind::kParam, "large")->pieces.at(0);
  const Piece& small = reader.manifest().find(Kind::kParam, "small")->pieces.at(0);
  std::string bytes = read_file(path + "/" + large.file);
  std::vector<int64_t> broken = {small.offset + 8, 0};
  for (int64_t i = 0; i < kNumChunks; ++i)
    broken.push_back(large.offset + i * kChunkBytes + (i * 99991) % kChunkBytes);
  for (const int64_t at : broken) bytes[at] = static_cast<char>(bytes[at] ^ 4);
  write_file(path + "/" + large.file, bytes);
  const auto report = verify(path);
  ASSERT_EQ(report.damages.size(), broken.size());
  const int64_t first = small.offset < large.offset;
  for (int64_t i = 0; i < kNumChunks; ++i) {
    const CheckpointError& damage = report.damages[first + i];
    EXPECT_EQ(damage.fqn(), "large");
    const int64_t begin = large.offset + i * kChunkBytes;
    EXPECT_NE(damage.problem().find("bytes " + std::to_string(begin) + " to "),
              std::string::npos)
        << damage.problem();
  }
  EXPECT_EQ(report.damages[first ? 0 : kNumChunks].fqn(), "small");
  EXPECT_EQ(report.damages.back().fqn(), "");  // the layout
}

TEST_F(VerifyTest, AFileThatCannotBeOpenedIsToldOnce) {
  namespace fs = std::filesystem;
  const auto path = save(small_model(), {.world_size = 1});
  const std::string shard = path + "/" + shard_file(0, 1);
  fs::permissions(shard, fs::perms::none);
  for (fs::path folder = path; folder != fs::path(run).parent_path().parent_path();
       folder = folder.parent_path())
    fs::permissions(folder, fs::perms(0755));
  ::setfsuid(65534);  // root opens everything; threads that are to come inherit it
  const bool is_open = std::ifstream(shard).is_open();
  const auto report = verify(path);
  ::setfsuid(::geteuid());
  if (is_open) GTEST_SKIP() << "this user opens everything";
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_EQ(report.damages[0].file(), shard);
}

TEST_F(VerifyTest, NoFolderIsAnError) {
  EXPECT_THROW(verify(run + "/none"), CheckpointError);
  EXPECT_FALSE(verify(run).is_sound());
}

}  // namespace
}  // namespace zero::checkpoint::testing::verify_test
