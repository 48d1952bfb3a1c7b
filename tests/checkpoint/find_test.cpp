#include "checkpoint/find.h"

#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/tidy.h"
#include "support.h"

namespace zero::checkpoint::testing::find_test {
namespace {

namespace fs = std::filesystem;

class FindTest : public CheckpointTest {
 protected:
  // The newest step, or -1.
  int64_t newest(std::vector<std::string>* passed_over = nullptr) {
    const auto found = newest_complete(run, passed_over);
    return found ? found->step : -1;
  }
};

TEST_F(FindTest, ARunThatDoesNotExistHasNone) {
  EXPECT_TRUE(list_steps(run + "/none").empty());
  EXPECT_EQ(newest_complete(run + "/none"), std::nullopt);
}

TEST_F(FindTest, ListsStepsInOrderAndNothingElse) {
  for (const int64_t step : {20, 3, 100}) save(small_model(), {.step = step});
  fs::create_directory(run + "/" + temporary_name("000000000200"));
  fs::create_directory(run + "/step_7");
  const auto steps = list_steps(run);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].step, 3);
  EXPECT_EQ(steps[2].step, 100);
  EXPECT_EQ(steps[2].path, run + "/step_000000000100");
  EXPECT_EQ(newest(), 100);
}

TEST_F(FindTest, MoreDigitsAreALaterStep) {
  for (const int64_t step : {1000000000000, 200000000000})
    save(small_model(), {.step = step});
  EXPECT_EQ(newest(), 1000000000000);
}

TEST_F(FindTest, ARunThatCannotBeLookedAtIsAnError) {
  write_file(run + "/file", "x");
  EXPECT_THROW(list_steps(run + "/file/runs"), CheckpointError);
}

TEST_F(FindTest, PassesOverWhatIsNotComplete) {
  for (const int64_t step : {1, 2, 3, 4}) save(small_model(), {.step = step});
  fs::remove(run + "/step_000000000004/manifest.json");
  fs::remove(run + "/step_000000000003/" + shard_file(1, 2));
  fs::rename(run + "/step_000000000002", run + "/step_000000000009");
  fs::create_directory_symlink(run + "/step_000000000001", run + "/step_000000000010");
  write_file(run + "/step_000000000011", "a file");
  std::vector<std::string> passed_over;
  EXPECT_EQ(newest(&passed_over), 1);
  ASSERT_EQ(passed_over.size(), 5u);
  EXPECT_NE(passed_over[0].find("is of step 1"), std::string::npos);
  EXPECT_NE(passed_over[1].find("is of step 2"), std::string::npos);
  EXPECT_NE(passed_over[2].find("step_000000000004/manifest.json: is missing"),
            std::string::npos);
  EXPECT_NE(passed_over[3].find(shard_file(1, 2) + ": is missing"), std::string::npos);
  EXPECT_EQ(passed_over[4],
            run + "/step_000000000011: cannot open the folder: Not a directory");
}

TEST_F(FindTest, ALinkWhoseCheckpointIsGoneIsPassedOver) {
  for (const int64_t step : {1, 3}) save(small_model(), {.step = step});
  for (const int64_t step : {2, 4})
    fs::create_symlink("nowhere", run + "/" + step_folder(step));
  std::vector<std::string> passed_over;
  EXPECT_EQ(newest(&passed_over), 3);
  EXPECT_THAT(passed_over, ::testing::ElementsAre(
                               run + "/step_000000000004: cannot open the folder: No "
                                     "such file or directory"));
}

TEST_F(FindTest, ARunThatRemovesWhatWasListedHasANewerOne) {
  save(small_model(), {.step = 1});
  std::atomic<bool> is_over = false;
  std::thread training([&] {
    for (int64_t step = 2; !is_over; ++step) {
      save(small_model(), {.step = step});
      purge(OpenRun(run), {.keep = 1}, step);
    }
  });
  std::vector<std::string> passed_over;
  int num_missed = 0;
  for (int i = 0; i < 1000; ++i) num_missed += newest(&passed_over) < 0;
  is_over = true;
  training.join();
  EXPECT_EQ(num_missed, 0);
  EXPECT_THAT(passed_over, ::testing::IsEmpty());
}

TEST_F(FindTest, ACheckpointThatWasMovedAndLinkedBackIsReadAndStays) {
  for (const int64_t step : {1, 2}) save(small_model(), {.step = step});
  const std::string moved = run + ".moved", name = run + "/step_000000000001";
  fs::rename(name, moved);
  fs::create_directory_symlink(moved, name);
  EXPECT_EQ(flaw_of(Folder(run), 1), "");
  EXPECT_TRUE(list_steps(run)[0].is_link);
  EXPECT_EQ(purge(OpenRun(run), {.keep = 1}, 2), 0);
  EXPECT_TRUE(fs::is_symlink(name));
  EXPECT_TRUE(fs::exists(moved + "/manifest.json"));
  fs::remove_all(run + "/step_000000000002");
  EXPECT_EQ(newest(), 1);
  fs::remove_all(moved);
}

TEST_F(FindTest, WhatHasAStepsNameAndIsNoneIsNamed) {
  save(small_model(), {.step = 1});
  EXPECT_THAT(misnamed_steps(Folder(run)), ::testing::IsEmpty());
  write_file(run + "/step_000000000002", "mine");
  EXPECT_THAT(misnamed_steps(Folder(run)), ::testing::ElementsAre(2));
  EXPECT_THAT(error_of([&] { prepare(OpenRun(run), 2); }),
              ::testing::HasSubstr("is no folder of this run's"));
  EXPECT_EQ(read_file(run + "/step_000000000002"), "mine");
  fs::remove(run + "/step_000000000002");
  fs::create_symlink("nowhere", run + "/step_000000000003");
  EXPECT_THAT(misnamed_steps(Folder(run)), ::testing::ElementsAre(3));
}

TEST_F(FindTest, MisnamedStepsComeInOrder) {
  for (const int64_t step : {1000000000000, 200000000000})
    write_file(run + "/" + step_folder(step), "mine");
  EXPECT_THAT(misnamed_steps(Folder(run)),
              ::testing::ElementsAre(200000000000, 1000000000000));
}

TEST_F(FindTest, AFlawIsTheFirstDamageAndHowManyMoreThereAre) {
  const std::string path = save(small_model(), {.step = 1});
  fs::remove(path + "/" + shard_file(0, 2));
  EXPECT_EQ(flaw_of(Folder(run), 1), path + "/" + shard_file(0, 2) + ": is missing");
  fs::remove(path + "/" + shard_file(1, 2));
  EXPECT_EQ(flaw_of(Folder(run), 1),
            path + "/" + shard_file(0, 2) + ": is missing (and 1 more)");
}

TEST_F(FindTest, AFlawTellsNoCure) {
  fs::create_symlink("loop", run + "/loop");
  EXPECT_EQ(flaw_of({1, run + "/loop/" + step_folder(1)}),
            run + "/loop: cannot open the folder: Too many levels of symbolic links");
}

TEST_F(FindTest, TheHintIsWrittenAndNeverBelieved) {
  save(small_model(), {.step = 1});
  save(small_model(), {.step = 2});
  const std::string hint = run + "/latest";
  EXPECT_EQ(read_file(hint), "step_000000000002\n");
  for (const auto& text :
       {std::string("step_000000000001\n"), std::string("step_0000"),
        std::string("../../etc"), std::string(1 << 20, 'x'), std::string()}) {
    write_file(hint, text);
    EXPECT_EQ(newest(), 2);
  }
  fs::remove(hint);
  EXPECT_EQ(newest(), 2);
  write_file(run + "/../outside", "keep");
  fs::create_symlink("../outside", hint);
  EXPECT_EQ(newest(), 2);
  save(small_model(), {.step = 3});
  EXPECT_TRUE(fs::is_symlink(hint)) << "people's own";
  EXPECT_EQ(read_file(run + "/../outside"), "keep");
  fs::remove(hint);
  save(small_model(), {.step = 4});
  EXPECT_EQ(read_file(hint), "step_000000000004\n");
}

TEST_F(FindTest, NothingCompleteIsNothing) {
  fs::create_directory(run + "/step_000000000001");
  std::vector<std::string> passed_over;
  EXPECT_EQ(newest(&passed_over), -1);
  EXPECT_EQ(passed_over.size(), 1u);
}

}  // namespace
}  // namespace zero::checkpoint::testing::find_test
