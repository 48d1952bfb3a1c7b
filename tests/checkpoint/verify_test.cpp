#include "checkpoint/verify.h"

#include <filesystem>

#include "support.h"

namespace zero::checkpoint::testing {
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
  EXPECT_EQ(report.damages[0].file, path + "/" + kVirtualFile);
  EXPECT_EQ(report.damages[1].file, path + "/" + shard_file(1, 3));
  EXPECT_EQ(report.damages[2].file, path + "/" + shard_file(2, 3));
}

TEST_F(VerifyTest, NoFolderIsAnError) {
  EXPECT_THROW(verify(run + "/none"), CheckpointError);
  EXPECT_FALSE(verify(run).is_sound());
}

}  // namespace
}  // namespace zero::checkpoint::testing
