#include "checkpoint/purge.h"

#include <filesystem>

#include "checkpoint/find.h"
#include "support.h"

namespace zero::checkpoint::testing {
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
  EXPECT_EQ(purge(run, 2), 3);
  EXPECT_EQ(steps(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(purge(run, 9), 0);
}

TEST_F(PurgeTest, DamagedOnesDoNotCountAsKept) {
  save_steps(4);
  fs::remove(run + "/step_000000000004/manifest.json");
  fs::remove(run + "/step_000000000001/manifest.json");
  purge(run, 2);
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 3, 4}));
}

TEST_F(PurgeTest, RemovesWhatFailedSavesLeft) {
  save_steps(1);
  fs::create_directories(run + "/tmp.000000000002.ab/deep");
  write_file(run + "/tmp.latest.cd", "x");
  purge(run, 1);
  EXPECT_TRUE(leftovers_of(run).empty());
}

TEST_F(PurgeTest, SomethingIsAlwaysKept) {
  save_steps(1);
  EXPECT_THROW(purge(run, 0), CheckpointError);
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
      purge(run, 1, io);
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
}  // namespace zero::checkpoint::testing
