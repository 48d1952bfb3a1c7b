// Checkpoints that are incomplete or damaged.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::damage_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class DamagedCheckpoint : public Scenario {
 protected:
  DamagedCheckpoint() {
    const Words flags = {"--steps=4", "--save-every=2", "--dump-state", path("state_4")};
    EXPECT_EQ(run(2, train("a", flags)).rc, 0);
  }

  std::string shard(int rank = 1, int step = 4) const {
    return path("a/step_00000000000" + std::to_string(step) + "/shard_0000" +
                std::to_string(rank) + "_of_00002.h5");
  }

  // Somewhere in the values of a parameter.
  void flip_a_byte(const std::string& file) const {
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
  }

  // `auto` continues from step 2 and gets where the run was before.
  void expect_passed_over(const std::string& reason) {
    const Outcome outcome =
        run(2, train("a", {"--steps=4", "--dump-state", path("state")}));
    EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err,
                ContainsRegex("passed over: .*step_000000000004.*" + reason));
    EXPECT_THAT(outcome.out, HasSubstr("resumed step 2 from"));
    expect_same(read_state(path("state_4")), read_state(path("state")));
    EXPECT_EQ(steps("a"), (std::vector<int64_t>{1, 2, 3, 4}));
    // The damaged one has been replaced.
    EXPECT_THAT(run(0, train("a", {"--steps=4"})).out, HasSubstr("finished: step 4"));
  }

  void expect_refused(const std::string& reason) {
    const Outcome must = run(0, train("a", {"--steps=6", "--resume=must"}));
    EXPECT_EQ(must.rc, 5) << must.err;
    EXPECT_THAT(must.err, HasSubstr(reason));
    const Outcome from =
        run(0, train("b", {"--steps=6", "--resume", path("a/step_000000000004")}));
    EXPECT_EQ(from.rc, 5) << from.err;
    EXPECT_THAT(from.err, HasSubstr(reason));
  }
};

TEST_F(DamagedCheckpoint, AShortFileIsPassedOver) {
  fs::resize_file(shard(), fs::file_size(shard()) - 100);
  expect_refused("shard_00001_of_00002.h5");
  expect_passed_over("shard_00001_of_00002.h5");
}

TEST_F(DamagedCheckpoint, AMissingFileIsPassedOver) {
  fs::remove(shard());
  expect_refused("shard_00001_of_00002.h5");
  expect_passed_over("shard_00001_of_00002.h5");
}

TEST_F(DamagedCheckpoint, AFlippedBitIsPassedOverByFileAndParameter) {
  flip_a_byte(shard());
  expect_refused("transformer.h.");
  expect_passed_over("shard_00001_of_00002.h5.*transformer.h");
}

TEST_F(DamagedCheckpoint, AManifestThatIsCutIsPassedOver) {
  const std::string manifest = path("a/step_000000000004/manifest.json");
  fs::resize_file(manifest, fs::file_size(manifest) / 2);
  expect_refused("manifest.json");
  expect_passed_over("manifest.json");
}

TEST_F(DamagedCheckpoint, WhenAllAreDamagedNothingIsStartedAnew) {
  flip_a_byte(shard(1, 2));
  fs::remove(shard(0, 4));
  const Outcome outcome = run(2, train("a", {"--steps=6"}));
  EXPECT_EQ(outcome.rc, 5);
  EXPECT_THAT(outcome.err, HasSubstr("every checkpoint is damaged"));
  EXPECT_THAT(outcome.err, HasSubstr("step_000000000002"));
  EXPECT_THAT(outcome.err, HasSubstr("step_000000000004"));
  const Outcome without_data = run(0, verb("train", {"--out", path("a")}));
  EXPECT_EQ(without_data.rc, 5);
  EXPECT_THAT(without_data.err, HasSubstr("every checkpoint is damaged"));
}

TEST_F(DamagedCheckpoint, WhatAFailedSaveLeftIsNoCheckpoint) {
  const std::string left = "a/zero.tmp.000000000006.0123456789abcdef";
  fs::create_directory(path(left));
  const Outcome outcome = run(2, train("a", {"--steps=6"}));
  EXPECT_EQ(outcome.rc, 0);
  EXPECT_THAT(outcome.out, HasSubstr("resumed step 4"));
  EXPECT_FALSE(has(left));
}

// Step 4 is damaged; the run went back to 2 and on, keeping one checkpoint.
TEST_F(DamagedCheckpoint, KeepCountsNoneThatWasSetAside) {
  flip_a_byte(shard());
  const Outcome outcome = run(2, train("a", {"--steps=3", "--save-every=1", "--keep=1"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("set aside as " + path("a/step_000000000004") + ".damaged"));
  EXPECT_EQ(checkpoints("a"), Words{"step_000000000003"});
  EXPECT_TRUE(has("a/step_000000000004.damaged/manifest.json"));
  EXPECT_THAT(run(2, train("a", {"--steps=5"})).out, HasSubstr("resumed step 3"));
}

TEST_F(DamagedCheckpoint, AFileOfSuchANameIsSomebodyElses) {
  write("a/step_000000000009", "notes");
  const Outcome outcome = run(2, train("a", {"--steps=5"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("resumed step 4"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("passed over")));
  const Outcome refused = run(2, train("a", {"--steps=10"}));
  EXPECT_EQ(refused.rc, 2);
  EXPECT_THAT(refused.err, HasSubstr("name of a checkpoint that this run may save"));
  EXPECT_FALSE(has("a/run.lock"));
  EXPECT_EQ(read_file(path("a/step_000000000009")), "notes");
}

TEST_F(DamagedCheckpoint, OneThatWasMovedAndLinkedBackIsGoneOnFromAndStays) {
  std::filesystem::rename(path("a/step_000000000004"), path("moved"));
  std::filesystem::create_directory_symlink(path("moved"), path("a/step_000000000004"));
  const Outcome outcome = run(2, train("a", {"--steps=6", "--keep=1"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("resumed step 4"));
  EXPECT_TRUE(has("a/step_000000000004/manifest.json"));
}

TEST_F(DamagedCheckpoint, MetricsOfARunWhoseCheckpointsAreGoneAreKept) {
  for (const std::string& step : checkpoints("a"))
    std::filesystem::rename(path("a/" + step), path("moved_" + step));
  const std::string before = read_file(path("a/metrics.jsonl"));
  const Outcome outcome = run(2, train("a", {"--steps=1"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("are kept as " + path("a/metrics.jsonl.1")));
  EXPECT_EQ(read_file(path("a/metrics.jsonl.1")), before);
}

// A crash between the last save and the end of the evaluation behind it.
TEST_F(DamagedCheckpoint, AFinishedRunFinishesWhatACrashLeftOut) {
  const Words flags = {"--steps=4", "--eval-data", path("data.txt"), "--sample=the"};
  std::string log = read_file(path("a/metrics.jsonl"));
  log.resize(log.rfind("{\"type\":\"end\""));
  write("a/metrics.jsonl", log + "{\"type\":\"ev");
  const Outcome first = run(2, train("a", flags));
  EXPECT_EQ(first.rc, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("eval  4/4"));
  EXPECT_THAT(first.out, HasSubstr("sample at step 4:\nthe"));
  EXPECT_EQ(metrics("a", "eval").size(), 1u);
  const Outcome second = run(2, train("a", flags));
  EXPECT_THAT(second.out, HasSubstr("this run is finished"));
  EXPECT_THAT(second.out, Not(HasSubstr("sample at")));
  EXPECT_EQ(metrics("a", "eval").size(), 1u);
}

TEST_F(DamagedCheckpoint, ARenamedFolderIsNotItsStep) {
  fs::rename(path("a/step_000000000004"), path("a/step_000000000009"));
  const Outcome must = run(0, train("a", {"--steps=12", "--resume=must"}));
  EXPECT_EQ(must.rc, 5);
  EXPECT_THAT(must.err, HasSubstr("is of step 4, which is not the folder's"));
  EXPECT_THAT(run(0, train("a", {"--steps=5"})).out, HasSubstr("resumed step 2"));
}

// The log is the least important thing in the folder.
TEST_F(DamagedCheckpoint, MetricsThatAreNoFileStopNobody) {
  fs::remove(path("a/metrics.jsonl"));
  fs::create_directory(path("a/metrics.jsonl"));
  const Outcome folder = run(0, train("a", {"--steps=5"}));
  EXPECT_EQ(folder.rc, 0) << folder.err;
  EXPECT_THAT(folder.err, HasSubstr("metrics.jsonl"));
  fs::remove(path("a/metrics.jsonl"));
  ASSERT_EQ(mkfifo(path("a/metrics.jsonl").c_str(), 0600), 0);
  const Outcome pipe = run(0, train("a", {"--steps=6"}));
  EXPECT_EQ(pipe.rc, 0) << pipe.err;
  EXPECT_FALSE(pipe.is_late);
}

TEST_F(DamagedCheckpoint, AFileSizeLimitIsAnErrorLikeAFullDisk) {
  const auto run_limited = [&](const Words& flags) {
    std::string line = "ulimit -f 8; exec";
    for (const std::string& word : train("a", flags)) line += " '" + word + "'";
    return run(0, {"/bin/bash", "-c", line});
  };
  const Outcome outcome = run_limited({"--steps=6"});
  EXPECT_EQ(outcome.rc, 5) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("File too large"), HasSubstr("ulimit -f"),
                                 HasSubstr("shard_00000_of_00001.h5")));
  // Each save tries again; that the last one fails is an error all the same.
  const Outcome tries =
      run_limited({"--steps=6", "--save-every=1", "--on-save-error=continue"});
  EXPECT_EQ(tries.rc, 5) << tries.err;
  EXPECT_THAT(tries.err, HasSubstr("step 5 is not saved, and the run goes on"));
  EXPECT_THAT(tries.err, Not(HasSubstr("step 6 is not saved, and the run goes on")));
  EXPECT_THAT(run(2, train("a", {"--steps=6"})).out, HasSubstr("resumed step 4"));
}

TEST_F(DamagedCheckpoint, AKilledReplacementIsUndone) {
  fs::rename(path("a/step_000000000004"),
             path("a/zero.tmp.replaced000000000004.0123456789abcdef"));
  const Outcome outcome = run(2, train("a", {"--steps=5"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("resumed step 4"));
}

TEST_F(DamagedCheckpoint, SomebodyAsksWhetherAllIsSound) {
  const Outcome sound = run(0, verb("verify", {"--from", path("a")}));
  EXPECT_EQ(sound.rc, 0) << sound.err;
  EXPECT_THAT(sound.out, ContainsRegex("step_000000000002: sound: .*\n.*4: sound"));
  // What h5py users open is checked as well.
  flip_a_byte(path("a/step_000000000004/checkpoint.h5"));
  flip_a_byte(shard(0, 2));
  fs::create_symlink("nowhere", path("a/step_000000000005"));
  const Outcome damaged = run(0, verb("verify", {"--from", path("a"), "--json"}));
  EXPECT_EQ(damaged.rc, 5);
  const auto told = nlohmann::json::parse(damaged.out);
  EXPECT_EQ(told["sound"], false);
  EXPECT_THAT(told["checkpoints"][0]["damages"][0]["file"].get<std::string>(),
              HasSubstr("shard_00000_of_00002.h5"));
  EXPECT_THAT(told["checkpoints"][1]["damages"][0]["file"].get<std::string>(),
              HasSubstr("checkpoint.h5"));
  EXPECT_EQ(told["checkpoints"][2]["sound"], false) << "the link leads nowhere";
  const Outcome one = run(0, verb("verify", {"--from", path("a/step_000000000004")}));
  EXPECT_EQ(one.rc, 5);
  EXPECT_THAT(one.out, HasSubstr("checkpoint.h5"));
}

TEST_F(DamagedCheckpoint, VerifyHasNothingToDo) {
  EXPECT_EQ(run(0, verb("verify", {})).rc, 2);
  EXPECT_EQ(run(0, verb("verify", {"--from", path("none")})).rc, 2);
  EXPECT_EQ(run(0, verb("verify", {"--from", path("a"), "--lr=1"})).rc, 2);
}

}  // namespace
}  // namespace zero::scenarios::damage_test
