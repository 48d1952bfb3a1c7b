#include "launcher/run/run_folder.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include "checkpoint/commit.h"
#include "checkpoint/error.h"
#include "engine/comm/thread_ranks.h"
#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher::run_folder_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using checkpoint::TakeOver;
using ::testing::HasSubstr;

// Plays every rank in a thread of its own, and leaves when that ends.
template <class Play>
void on_ranks(int size, Play play) {
  auto ranks = make_thread_ranks(size);
  std::vector<std::jthread> threads;
  for (auto& rank : ranks)
    threads.emplace_back([&, own = std::move(rank)] { play(*own); });
}

TEST(RunFolderTest, RanksShareOne) {
  const TempFolder temp;
  const std::string path = temp.path("runs/a");
  on_ranks(3, [&](Ranks& ranks) {
    const RunFolder folder(path, "", TakeOver::kFromTheDead, ranks);
    ranks.largest(0, "until all have seen it");
  });
  EXPECT_TRUE(fs::is_empty(path));  // neither lock nor nonce nor probe is left
}

TEST(RunFolderTest, ASecondRunIsKeptOut) {
  const TempFolder temp;
  on_ranks(1, [&](Ranks& ranks) {
    RunFolder first(temp.path("a"), "", TakeOver::kFromTheDead, ranks);
    EXPECT_THROW(RunFolder(temp.path("a"), "", TakeOver::kFromTheDead, ranks),
                 checkpoint::CheckpointError);
    first.check_ours();
  });
}

TEST(RunFolderTest, AFileInItsPlaceIsNamed) {
  const TempFolder temp;
  on_ranks(1, [&](Ranks& ranks) {
    EXPECT_THROW(RunFolder(temp.write("a", ""), "", TakeOver::kFromTheDead, ranks),
                 Error);
  });
}

TEST(RunFolderTest, TheStopFileIsSeenAndRemoved) {
  const TempFolder temp;
  on_ranks(1, [&](Ranks& ranks) {
    const RunFolder folder(temp.path("a"), "", TakeOver::kFromTheDead, ranks);
    EXPECT_FALSE(folder.has_stop_file());
    temp.write("a/STOP", "");
    EXPECT_TRUE(folder.has_stop_file());
    folder.remove_stop_file();
    EXPECT_FALSE(folder.has_stop_file());
  });
}

TEST(RunFolderTest, AFolderNamedStopIsSomebodysOwn) {
  const TempFolder temp;
  on_ranks(1, [&](Ranks& ranks) {
    const RunFolder folder(temp.path("a"), "", TakeOver::kFromTheDead, ranks);
    fs::create_directories(temp.path("a/STOP/deep"));
    EXPECT_FALSE(folder.has_stop_file());
    folder.remove_stop_file();
    EXPECT_TRUE(fs::exists(temp.path("a/STOP/deep")));
  });
}

TEST(RunFolderTest, WhatAKilledJobLeftGoesWhenTheLockIsTaken) {
  const TempFolder temp;
  const std::string path = temp.path("a");
  fs::create_directories(path);
  checkpoint::prepare(checkpoint::OpenRun(path), 7);
  temp.write("a/tmp.AbCdEf", "mktemp's");
  on_ranks(2, [&](Ranks& ranks) {
    const RunFolder folder(path, "", TakeOver::kFromTheDead, ranks);
    ranks.largest(0, "until all have seen it");
  });
  EXPECT_EQ(checkpoint::Folder(path).names(), std::vector<std::string>{"tmp.AbCdEf"});
}

TEST(RunFolderTest, OnlyLaterStepsAreSetAside) {
  const TempFolder temp;
  on_ranks(1, [&](Ranks& ranks) {
    const RunFolder folder(temp.path("a"), "", TakeOver::kFromTheDead, ranks);
    for (const std::string step : {"a/step_000000000002", "a/step_000000000003"})
      fs::create_directory(temp.path(step));
    EXPECT_EQ(folder.set_aside_behind(2),
              std::vector<std::string>{"step_000000000003.damaged"});
    EXPECT_TRUE(fs::exists(temp.path("a/step_000000000002")));
  });
}

TEST(RunFolderTest, AMovedFolderEndsTheRun) {
  const TempFolder temp;
  on_ranks(1, [&](Ranks& ranks) {
    RunFolder folder(temp.path("a"), "", TakeOver::kFromTheDead, ranks);
    fs::rename(temp.path("a"), temp.path("b"));
    EXPECT_THROW(folder.check_ours(), checkpoint::CheckpointError);
    fs::create_directory(temp.path("a"));
    EXPECT_THROW(folder.check_ours(), checkpoint::CheckpointError);
  });
}

TEST(CheckShared, AFolderOfOneHostAloneIsNoticed) {
  const TempFolder temp;
  fs::create_directory(temp.path("a"));
  fs::create_directory(temp.path("b"));
  std::string complaint;
  on_ranks(2, [&](Ranks& ranks) {
    try {
      check_shared(temp.path("a"), temp.path(ranks.rank() == 0 ? "a" : "b"), ranks);
      ADD_FAILURE() << "rank " << ranks.rank();
    } catch (const Error& error) {
      if (ranks.rank() == 1) complaint = error.what();
    }
  });
  EXPECT_THAT(complaint, HasSubstr("does not see what rank 0 writes"));
  EXPECT_THAT(complaint, HasSubstr(temp.path("b")));
}

bool happens(const std::function<bool()>& event) {
  const auto patience = std::chrono::steady_clock::now() + 1min;
  while (!event()) {
    if (std::chrono::steady_clock::now() > patience) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST(HeartbeatTest, ALostLockIsTold) {
  const TempFolder temp;
  Heartbeat lock(temp.path(""), "", TakeOver::kFromTheDead, 0.02);
  const auto taken = fs::last_write_time(temp.path("run.lock"));
  EXPECT_TRUE(happens([&] { return fs::last_write_time(temp.path("run.lock")) > taken; }))
      << "no beat";
  EXPECT_NO_THROW(lock.check());
  fs::remove(temp.path("run.lock"));
  const auto is_told = [&] {
    try {
      lock.check();
    } catch (const checkpoint::CheckpointError&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(happens(is_told));
}

TEST(HeartbeatTest, TheJobsNameComesFromItsScheduler) {
  EXPECT_EQ(job_id({"A=b", "PMIX_NAMESPACE=7", "SLURM_JOB_ID=12"}), "12");
  EXPECT_EQ(job_id({"A=b", "PBS_JOBID=7"}), "7");
  EXPECT_EQ(job_id({"A=b", "PMIX_NAMESPACE=7"}), "") << "a new one each time";
  EXPECT_EQ(job_id({"A=b"}), "");
}

}  // namespace
}  // namespace zero::launcher::run_folder_test
