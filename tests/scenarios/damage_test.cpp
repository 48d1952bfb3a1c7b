// Checkpoints that are incomplete or damaged.
#include <filesystem>
#include <fstream>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

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
    EXPECT_THAT(outcome.out,
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
}

TEST_F(DamagedCheckpoint, WhatAFailedSaveLeftIsNoCheckpoint) {
  fs::create_directory(path("a/tmp.000000000006.0123456789abcdef"));
  const Outcome outcome = run(2, train("a", {"--steps=6"}));
  EXPECT_EQ(outcome.rc, 0);
  EXPECT_THAT(outcome.out, HasSubstr("resumed step 4"));
  EXPECT_FALSE(has("a/tmp.000000000006.0123456789abcdef"));
}

}  // namespace
}  // namespace zero::scenarios
