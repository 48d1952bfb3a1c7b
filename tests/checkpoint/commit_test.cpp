#include "checkpoint/commit.h"

#include <gmock/gmock.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <utility>

#include "checkpoint/find.h"
#include "checkpoint/tidy.h"
#include "checkpoint/writer.h"
#include "support.h"

namespace zero::checkpoint::testing::commit_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CommitTest : public CheckpointTest {};

TEST_F(CommitTest, LeavesExactlyTheseFiles) {
  const auto path = save(small_model());
  EXPECT_EQ(path, run + "/step_000000000100");
  EXPECT_THAT(files_of(path), ::testing::ElementsAre("checkpoint.h5", "manifest.json",
                                                     "shard_00000_of_00002.h5",
                                                     "shard_00001_of_00002.h5"));
  EXPECT_THAT(files_of(run), ::testing::ElementsAre("latest", "step_000000000100"));
}

TEST_F(CommitTest, TheHintNamesTheStepOrIsMissed) {
  save(small_model(), {.step = 3});
  EXPECT_TRUE(has_hint(OpenRun(run), 3));
  EXPECT_FALSE(has_hint(OpenRun(run), 4));
  fs::remove(run + "/latest");
  EXPECT_FALSE(has_hint(OpenRun(run), 3));
}

TEST_F(CommitTest, TheBestIsNamedUnlessTheFileIsSomebodys) {
  save(small_model(), {.step = 3});
  for (const int64_t step : {3, 4}) {
    name_best(OpenRun(run), step);
    EXPECT_EQ(read_file(run + "/best"), step_folder(step) + "\n");
  }
  write_file(run + "/best", "my notes");
  EXPECT_THAT(error_of([&] { name_best(OpenRun(run), 5); }),
              HasSubstr("zero has not written"));
  EXPECT_EQ(read_file(run + "/best"), "my notes");
}

TEST_F(CommitTest, TheSameCheckpointHasTheSameBytes) {
  const auto one = save(small_model(), {.step = 1});
  fs::rename(one, run + "/aside");
  const auto two = save(small_model(), {.step = 1});
  for (const auto& name : files_of(two)) {
    EXPECT_EQ(read_file(run + "/aside/" + name), read_file(two + "/" + name)) << name;
  }
}

TEST_F(CommitTest, TheTimeOfSavingIsNotStored) {
  const std::string bytes = read_file(save(small_model()) + "/" + kVirtualFile);
  const int64_t now = std::time(nullptr);
  for (size_t i = 0; i + 4 <= bytes.size(); ++i) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + i, 4);
    EXPECT_GT(std::abs(now - int64_t{value}), 60) << i;
  }
}

TEST_F(CommitTest, ACommittedStepIsRefused) {
  const TestModel model = small_model(1);
  const auto path = save(model);
  EXPECT_THAT(error_of([&] { save(small_model(2)); }), HasSubstr("saved already"));
  EXPECT_THAT(error_of([&] { prepare(OpenRun(run), 100); }), HasSubstr("saved already"));
  EXPECT_TRUE(holds(path, model));
  EXPECT_TRUE(leftovers_of(run).empty());
}

TEST_F(CommitTest, AStepThatIsSavedMeanwhileStays) {
  const TestModel model = small_model(1), late = small_model(2);
  std::string folder = prepare(OpenRun(run), 100);
  const auto report = write_shard(folder, 0, 1, slices_of(late, 0, 1));
  const auto path = save(model);
  EXPECT_THAT(error_of([&] { commit(OpenRun(run), folder, {report}, {.step = 100}); }),
              HasSubstr("saved already"));
  EXPECT_TRUE(holds(path, model));
}

TEST_F(CommitTest, ACommittedStepIsReplacedWhenAsked) {
  const TestModel model = small_model(2);
  save(small_model(1), {.world_size = 4});
  const auto path = save(model, {.world_size = 2, .existing = Existing::kReplace});
  EXPECT_TRUE(holds(path, model));
  EXPECT_TRUE(leftovers_of(run).empty());
}

TEST_F(CommitTest, ADamagedStepIsNoObstacle) {
  const TestModel model = small_model(2);
  fs::remove(save(small_model(1)) + "/manifest.json");
  EXPECT_TRUE(holds(save(model), model));
  EXPECT_TRUE(leftovers_of(run).empty());
}

TEST_F(CommitTest, WithoutExchangeAStepIsReplacedToo) {
  FaultyIo io;
  io.can_exchange = false;
  const TestModel old = small_model(1), fresh = small_model(2);
  const auto path = save(old);
  save(fresh, {.existing = Existing::kReplace}, io);
  EXPECT_TRUE(holds(path, fresh));
  fs::remove(path + "/manifest.json");
  EXPECT_TRUE(holds(save(old, {}, io), old));
  EXPECT_TRUE(leftovers_of(run).empty());
}

// Also where a new folder has its name already. A disk on which nothing works any more
// may leave the new one there: then the old one is not removed.
TEST_F(CommitTest, WhatWasThereStaysWhereASaveFails) {
  const TestModel old = small_model(1), fresh = small_model(2);
  for (const bool replaces : {true, false})
    for (const bool can_exchange : {true, false})
      for (const bool fail_after : {true, false})
        for (int call = 0;; ++call) {
          SCOPED_TRACE(::testing::Message()
                       << replaces << can_exchange << fail_after << call);
          fs::remove_all(run);
          const std::string path = run + "/" + step_folder(100);
          if (replaces) save(old);
          FaultyIo io;
          io.fail_at = call;
          io.error = EIO;
          io.can_exchange = can_exchange;
          io.fail_after = fail_after;
          try {
            save(fresh, {.existing = Existing::kReplace}, io);
            ASSERT_TRUE(holds(path, fresh));
            break;
          } catch (const CheckpointError&) {
          }
          const bool may_be_new = fail_after && fs::exists(path) && holds(path, fresh);
          if (may_be_new) {
            EXPECT_EQ(leftovers_of(run).size(), replaces);
          }
          tidy(OpenRun(run));
          if (may_be_new) continue;
          if (replaces) {
            ASSERT_TRUE(holds(path, old));
          } else {
            ASSERT_FALSE(fs::exists(path));
          }
        }
}

// Somebody makes something while a checkpoint is saved.
class MeanwhileIo : public FaultyIo {
 public:
  std::function<void()> act;
  bool is_at_the_last_moment = false;  // else when the manifest is made durable

  int fsync(int file) override {
    const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(file));
    if (path.filename() == kManifestFile && !is_at_the_last_moment) act();
    return FaultyIo::fsync(file);
  }
  int exchange(int folder, const char* one, const char* other) override {
    if (std::exchange(is_at_the_last_moment, false)) act();
    return FaultyIo::exchange(folder, one, other);
  }
};

TEST_F(CommitTest, WhatTakesTheStepsNameMeanwhileStays) {
  const std::string path = run + "/" + step_folder(100);
  struct Thing {
    std::function<void()> make;
    std::function<bool()> is_there;
  };
  const std::vector<Thing> things = {
      {[&] { write_file(path, "mine"); }, [&] { return read_file(path) == "mine"; }},
      {[&] { fs::create_symlink("nowhere", path); },
       [&] { return fs::is_symlink(path) && fs::read_symlink(path) == "nowhere"; }},
      {[&] {
         fs::create_directory(path);
         write_file(path + "/notes", "mine");
       },
       [&] { return read_file(path + "/notes") == "mine"; }}};
  for (size_t i = 0; i < things.size(); ++i)
    for (const bool is_late : {false, true})
      for (const bool can_exchange : {true, false}) {
        SCOPED_TRACE(::testing::Message() << i << is_late << can_exchange);
        fs::remove_all(run);
        if (is_late) save(small_model(1));
        MeanwhileIo io;
        io.can_exchange = can_exchange;
        io.is_at_the_last_moment = is_late;
        io.act = [&] {
          fs::remove_all(path);
          things[i].make();
        };
        EXPECT_THAT(
            error_of([&] { save(small_model(2), {.existing = Existing::kReplace}, io); }),
            HasSubstr(path + ": is no folder of this run's, and stays as it is"));
        EXPECT_TRUE(things[i].is_there());
        EXPECT_TRUE(leftovers_of(run).empty());
      }
}

TEST_F(CommitTest, AMovedRunIsNotMadeAnew) {
  const TestModel model = small_model();
  const OpenRun open(run);
  std::string folder = prepare(open, 1);
  const auto report = write_shard(folder, 0, 1, slices_of(model, 0, 1));
  fs::rename(run, run + "_moved");
  const auto refusal = [&](auto action) {
    EXPECT_THAT(error_of(action), HasSubstr("moved, replaced or removed"));
  };
  refusal([&] { commit(open, folder, {report}, {.step = 1}); });
  refusal([&] { prepare(open, 2); });
  EXPECT_FALSE(fs::exists(run));
  fs::create_directory(run);  // somebody else's now
  refusal([&] { commit(open, folder, {report}, {.step = 1}); });
  EXPECT_TRUE(files_of(run).empty());
  EXPECT_TRUE(list_steps(run + "_moved").empty());
}

TEST_F(CommitTest, ARunBelowWhatIsAFileNowIsNotMadeAnew) {
  make_run_folder(run + "/sweep/one");
  const OpenRun open(run + "/sweep/one");
  fs::rename(run + "/sweep", run + "/moved");
  write_file(run + "/sweep", "");
  EXPECT_THAT(error_of([&] { prepare(open, 1); }),
              HasSubstr("moved, replaced or removed"));
}

TEST_F(CommitTest, AShardThatCannotBeSeenIsOnAnotherDisk) {
  const TestModel model = small_model();
  std::string folder = prepare(OpenRun(run), 1);
  std::vector<ShardReport> reports;
  for (int rank = 0; rank < 2; ++rank) {
    reports.push_back(write_shard(folder, rank, 2, slices_of(model, rank, 2)));
  }
  fs::remove(folder + "/" + shard_file(1, 2));
  EXPECT_THAT(error_of([&] { commit(OpenRun(run), folder, reports, {.step = 1}); }),
              HasSubstr("use a folder that all nodes share"));
}

TEST_F(CommitTest, AShardThatHasGrownIsRefused) {
  const TestModel model = small_model();
  std::string folder = prepare(OpenRun(run), 1);
  const auto report = write_shard(folder, 0, 1, slices_of(model, 0, 1));
  const std::string shard = folder + "/" + shard_file(0, 1);
  write_file(shard, read_file(shard) + "x");
  EXPECT_THAT(error_of([&] { commit(OpenRun(run), folder, {report}, {.step = 1}); }),
              HasSubstr("bytes, rank 0 wrote"));
}

TEST_F(CommitTest, LostElementsAreNamed) {
  const TestModel model = small_model();
  std::string folder = prepare(OpenRun(run), 1);
  auto slices = slices_of(model, 0, 1);
  slices[3].numel -= 1;
  const auto report = write_shard(folder, 0, 1, slices);
  EXPECT_THAT(error_of([&] { commit(OpenRun(run), folder, {report}, {.step = 1}); }),
              HasSubstr("blocks.1.w: params: nobody has elements 2172 to 2172"));
  EXPECT_TRUE(list_steps(run).empty());
}

TEST_F(CommitTest, TheCallersJsonMustBeJson) {
  EXPECT_THAT(error_of([&] { save(small_model(), {.config = "{"}); }),
              HasSubstr("the config: is not JSON"));
  EXPECT_TRUE(leftovers_of(run).empty());
}

// In the manifest they lie one level deeper.
TEST_F(CommitTest, WhatCouldNotBeReadIsNotWritten) {
  const std::string deep =
      std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_THAT(error_of([&] { save(small_model(), {.position = deep}); }),
              HasSubstr("manifest.json: is nested too deeply"));
  const std::string long_text = '"' + std::string(5 << 20, 'a') + '"';
  EXPECT_THAT(error_of([&] { save(small_model(), {.position = long_text}); }),
              HasSubstr("manifest.json: would have 52"));
  EXPECT_TRUE(files_of(run).empty());
}

TEST_F(CommitTest, DiscardTouchesOnlyTemporaryFolders) {
  const auto path = save(small_model());
  const OpenRun open(run);
  const std::string file = run + "/" + temporary_name("1");
  for (const std::string& name : {run + "/tmp.mine", file}) write_file(name, "x");
  for (const std::string& name :
       {path, run, run + "/zero.tmp.none", run + "/tmp.mine", file})
    discard(open, name);
  EXPECT_TRUE(fs::exists(file));
  EXPECT_TRUE(fs::exists(path + "/manifest.json"));
  EXPECT_TRUE(fs::exists(run + "/tmp.mine"));
}

// Another process makes it in the moment between a look and the call.
class LateIo : public Io {
 public:
  int mkdir(int folder, const char* name) override {
    EXPECT_EQ(Io::mkdir(folder, name), 0);
    return Io::mkdir(folder, name);
  }
};

TEST_F(CommitTest, AFolderThatSomebodyElseHasJustMadeIsTaken) {
  LateIo io;
  make_run_folder(run + "/sweep/of/runs", io);
  EXPECT_TRUE(fs::is_directory(run + "/sweep/of/runs"));
}

TEST_F(CommitTest, ProbingLeavesNothing) {
  make_run_folder(run + "/new/deep");
  fs::create_directory_symlink("/nowhere", run + "/new/" + step_folder(0));
  probe_writable(OpenRun(run + "/new"));
  probe_writable(OpenRun(run + "/new/deep"));
  EXPECT_TRUE(files_of(run + "/new/deep").empty());
  make_run_folder(run + "/other/../beside");
  EXPECT_TRUE(fs::is_directory(run + "/beside"));
  FaultyIo io;
  io.fail_at = 2;
  io.error = EROFS;
  EXPECT_THAT(error_of([&] { probe_writable(OpenRun(run, io)); }),
              HasSubstr("Read-only"));
  EXPECT_TRUE(leftovers_of(run).empty());
}

}  // namespace
}  // namespace zero::checkpoint::testing::commit_test
