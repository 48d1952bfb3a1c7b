#include "checkpoint/tidy.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "support.h"

namespace zero::checkpoint::testing::tidy_test {
namespace {

namespace fs = std::filesystem;

class TidyTest : public CheckpointTest {};

TEST_F(TidyTest, RemovesWhatKilledSavesLeft) {
  save(small_model(), {.step = 1});
  std::string folder = prepare(OpenRun(run), 2);
  write_file(folder + "/" + shard_file(0, 1), "half");
  write_file(run + "/" + temporary_name("latest"), "x");
  tidy(OpenRun(run));
  EXPECT_THAT(files_of(run), ::testing::ElementsAre("latest", "step_000000000001"));
}

TEST_F(TidyTest, TouchesNothingElse) {
  const std::string ours = temporary_name("000000000002");
  fs::create_directories(run + "/" + ours + "/deep");
  fs::create_directory(run + "/" + ours + "/" + kVirtualFile);
  write_file(run + "/" + ours + "/mine.txt", "mine");
  write_file(run + "/" + ours + "/" + shard_file(0, 1), "half");
  write_file(run + "/tmp.k3nF9x", "mktemp's");
  fs::create_directory(run + "/tmp.000000000003.0123456789abcdef");
  fs::create_symlink("tmp.k3nF9x", run + "/" + temporary_name("link"));
  tidy(OpenRun(run));
  EXPECT_THAT(files_of(run),
              ::testing::ElementsAre("tmp.000000000003.0123456789abcdef", "tmp.k3nF9x",
                                     ours, ::testing::HasSubstr("zero.tmp.link.")));
  EXPECT_THAT(files_of(run + "/" + ours),
              ::testing::ElementsAre(kVirtualFile, "deep", "mine.txt"));
}

TEST_F(TidyTest, ARunThatWasMovedIsLeftAlone) {
  const OpenRun open(run);
  prepare(open, 2);
  fs::rename(run, run + "_moved");
  EXPECT_THAT(error_of([&] { tidy(open); }), ::testing::HasSubstr("moved, replaced"));
  EXPECT_EQ(leftovers_of(run + "_moved").size(), 1u);
}

TEST_F(TidyTest, ADamagedStepIsSetAsideWhole) {
  save(small_model(), {.step = 1});
  save(small_model(), {.step = 2});
  write_file(run + "/step_000000000002.damaged", "there already");
  EXPECT_EQ(set_aside(OpenRun(run), 2), "step_000000000002.damaged.1");
  ASSERT_EQ(list_steps(run).size(), 1u);
  EXPECT_EQ(files_of(run + "/step_000000000002.damaged.1").size(), 4u);
}

}  // namespace
}  // namespace zero::checkpoint::testing::tidy_test
