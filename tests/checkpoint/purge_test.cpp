
#include <filesystem>

#include "checkpoint/find.h"
#include "checkpoint/tidy.h"
#include "support.h"

namespace zero::checkpoint::testing::purge_test {
namespace {

namespace fs = std::filesystem;

class PurgeTest : public CheckpointTest {
 protected:
  void save_steps(int count) {
    for (int step = 1; step <= count; ++step) save(small_model(step), {.step = step});
  }

  std::vector<int64_t> steps() {
    std::vector<int64_t> result;
    for (const auto& folder : list_steps(run)) result.push_back(folder.step);
    return result;
  }
};

TEST_F(PurgeTest, KeepsTheNewest) {
  save_steps(5);
  EXPECT_EQ(purge(OpenRun(run), {.keep = 2}, 5), 3);
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(purge(OpenRun(run), {.keep = 9}, 5), 0);
}

TEST_F(PurgeTest, DamagedOnesDoNotCountAsKept) {
  save_steps(5);
  fs::remove(run + "/step_000000000004/manifest.json");
  fs::remove(run + "/step_000000000001/manifest.json");
  purge(OpenRun(run), {.keep = 2}, 5);
  EXPECT_EQ(steps(), (std::vector<int64_t>{3, 4, 5}));
}

// A run went back to step 3 and came to 5 again; 6 and 9 are of its earlier life.
TEST_F(PurgeTest, TheOneJustWrittenStaysAndCountsFirst) {
  save_steps(6);
  save(small_model(9), {.step = 9});
  EXPECT_EQ(purge(OpenRun(run), {.keep = 2}, 5), 3);
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 5, 6, 9}));
  EXPECT_EQ(purge(OpenRun(run), {.keep = 1}, 5), 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{5, 6, 9}));
}

TEST_F(PurgeTest, EveryMthStaysForEver) {
  save_steps(7);
  EXPECT_EQ(purge(OpenRun(run), {.keep = 2, .keep_every = 3}, 7), 4);
  EXPECT_EQ(steps(), (std::vector<int64_t>{3, 6, 7}));
}

TEST_F(PurgeTest, TheBestStaysBesideTheNewest) {
  save_steps(5);
  EXPECT_EQ(purge(OpenRun(run), {.keep = 2, .best = 2}, 5), 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(purge(OpenRun(run), {.keep = 2, .best = 5}, 5), 1);
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 5}));
}

TEST_F(PurgeTest, SomethingIsAlwaysKept) {
  save_steps(1);
  EXPECT_THROW(purge(OpenRun(run), {.keep = 0}, 1), CheckpointError);
}

TEST_F(PurgeTest, WhatPeoplePutBesideIsNotTouched) {
  save_steps(2);
  fs::create_directories(run + "/tmp.AbCdEf/notes");
  write_file(run + "/tmp.AbCdEf/notes/a", "mine");
  write_file(run + "/step_000000000001/notes.txt", "mine");
  write_file(run + "/step_000000000000", "a file");
  purge(OpenRun(run), {.keep = 1}, 2);
  tidy(OpenRun(run));
  EXPECT_EQ(read_file(run + "/tmp.AbCdEf/notes/a"), "mine");
  EXPECT_EQ(files_of(run + "/step_000000000001.left"),
            std::vector<std::string>{"notes.txt"});
  EXPECT_EQ(read_file(run + "/step_000000000000"), "a file");
  EXPECT_EQ(steps(), std::vector<int64_t>{2});
}

TEST_F(PurgeTest, WhatWasLeftBeforeStays) {
  save_steps(2);
  fs::create_directory(run + "/step_000000000001.left");
  write_file(run + "/step_000000000001/notes.txt", "mine");
  EXPECT_EQ(purge(OpenRun(run), {.keep = 1}, 2), 1);
  EXPECT_TRUE(files_of(run + "/step_000000000001.left").empty());
  ASSERT_EQ(leftovers_of(run).size(), 1u);
  EXPECT_EQ(files_of(run + "/" + leftovers_of(run)[0]),
            std::vector<std::string>{"notes.txt"});
}

TEST_F(PurgeTest, ARunThatWasMovedIsLeftAlone) {
  save_steps(2);
  const OpenRun open(run);
  fs::rename(run, run + "_moved");
  EXPECT_THROW(purge(open, {.keep = 1}, 2), CheckpointError);
  EXPECT_EQ(list_steps(run + "_moved").size(), 2u);
}

TEST_F(PurgeTest, HalfOfOneIsNeverTakenForOne) {
  for (int call = 0;; ++call) {
    fs::remove_all(run);
    save_steps(3);
    FaultyIo io;
    io.fail_at = call;
    io.error = EIO;
    io.can_unlink = false;
    try {
      purge(OpenRun(run, io), {.keep = 1}, 3);
    } catch (const CheckpointError&) {
    }
    for (const auto& step : list_steps(run)) {
      EXPECT_TRUE(holds(step.path, small_model(static_cast<int>(step.step))));
    }
    EXPECT_EQ(newest_complete(run)->step, 3);
    if (io.num_calls <= call) break;  // nothing failed any more
  }
}

}  // namespace
}  // namespace zero::checkpoint::testing::purge_test
