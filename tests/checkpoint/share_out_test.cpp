#include "checkpoint/share_out.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace zero::checkpoint::share_out_test {
namespace {

void wait_for(const std::atomic<bool>& flag) {
  const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!flag && std::chrono::steady_clock::now() < last) std::this_thread::yield();
}

std::string error_of_jobs(size_t num_jobs, const Worker& worker) {
  try {
    share_out(num_jobs, [&] { return worker; });
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(ShareOutTest, EveryJobIsDoneOnceByWorkersOfThreads) {
  std::vector<std::atomic<int>> times(1000);
  std::atomic<int> num_workers = 0;
  share_out(times.size(), [&]() -> Worker {
    ++num_workers;
    return [&, mine = std::this_thread::get_id()](size_t job) {
      EXPECT_EQ(std::this_thread::get_id(), mine);
      ++times[job];
    };
  });
  for (const auto& count : times) EXPECT_EQ(count, 1);
  EXPECT_GE(num_workers, 1);
}

TEST(ShareOutTest, TwoJobsRunAtOnceOnAnyMachine) {
  std::atomic<bool> begun = false;
  share_out(2, [&]() -> Worker {
    return [&](size_t job) {
      if (job == 1) begun = true;
      wait_for(begun);
    };
  });
  EXPECT_TRUE(begun);
}

TEST(ShareOutTest, NoJobIsNoWork) {
  EXPECT_EQ(error_of_jobs(0, [](size_t) { throw std::runtime_error("done"); }), "");
}

TEST(ShareOutTest, TheFirstErrorInTheOrderOfJobsIsThrown) {
  std::atomic<bool> has_failed = false;
  const Worker worker = [&](size_t job) {
    if (job == 9) {
      has_failed = true;
      throw std::runtime_error("9");
    }
    if (job != 5) return;
    wait_for(has_failed);
    throw std::runtime_error("5");
  };
  EXPECT_EQ(error_of_jobs(20, worker), "5");
}

TEST(ShareOutTest, AfterAnErrorFewMoreJobsAreTaken) {
  std::atomic<int> num_done = 0;
  const Worker worker = [&](size_t job) {
    if (job == 0) throw std::runtime_error("0");
    ++num_done;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  EXPECT_EQ(error_of_jobs(5000, worker), "0");
  EXPECT_LT(num_done, 4000);
}

}  // namespace
}  // namespace zero::checkpoint::share_out_test
