#include "offload/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "offload/affinity.h"
#include "tests/offload/pretended_machine.h"

namespace zero::thread_pool_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using Chunks = std::set<std::pair<int64_t, int64_t>>;

Chunks chunks_of(ThreadPool& pool, int64_t count, int64_t grain) {
  std::mutex mutex;
  Chunks chunks;
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    EXPECT_TRUE(chunks.emplace(begin, end).second)
        << "chunk at " << begin << " came twice";
  });
  return chunks;
}

// Where `num_threads` threads wait for each other. A pool of fewer threads never gets
// past it; then the test gives up after a while, and fails, rather than hang.
class MeetingPoint {
 public:
  explicit MeetingPoint(int num_threads) : num_missing_(num_threads) {}

  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    --num_missing_;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] {
      return num_missing_ <= 0;
    })) << "the loop runs on too few threads";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_missing_;
};

// The threads that work on one loop of as many chunks; no chunk ends before all have
// begun.
std::set<std::thread::id> threads_of(ThreadPool& pool) {
  const int num_threads = pool.num_threads();
  MeetingPoint all_here(num_threads);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.parallel_for(num_threads, 1, [&](int64_t, int64_t) {
    all_here.arrive_and_wait();
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  return threads;
}

TEST(ThreadPoolTest, ChunksAreMultiplesOfTheGrain) {
  ThreadPool pool(2);
  EXPECT_THAT(chunks_of(pool, 10, 4), ElementsAre(Pair(0, 4), Pair(4, 8), Pair(8, 10)));
  EXPECT_THAT(chunks_of(pool, 3, 4), ElementsAre(Pair(0, 3)));
  EXPECT_THAT(chunks_of(pool, 0, 4), ElementsAre());
}

TEST(ThreadPoolTest, ChunksDoNotDependOnTheNumberOfThreads) {
  ThreadPool one(1), two(2), five(5);
  for (const int64_t count : {1, 63, 64, 65, 1000, 4097}) {
    EXPECT_EQ(chunks_of(one, count, 64), chunks_of(two, count, 64));
    EXPECT_EQ(chunks_of(one, count, 64), chunks_of(five, count, 64));
  }
}

TEST(ThreadPoolTest, UsesAsManyThreadsAsAsked) {
  for (const int num_threads : {1, 2, 4, 7}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    EXPECT_EQ(threads_of(pool).size(), static_cast<size_t>(num_threads));
  }
}

TEST(ThreadPoolTest, ASmallPoolDoesNotStarveABigOne) {
  ThreadPool big(6), small(2);
  EXPECT_EQ(threads_of(small).size(), 2u);
  EXPECT_EQ(threads_of(big).size(), 6u);
}

TEST(ThreadPoolTest, OneThreadIsTheCallerInOrder) {
  ThreadPool pool(1);
  std::vector<int64_t> begins;
  pool.parallel_for(40, 10, [&](int64_t begin, int64_t) { begins.push_back(begin); });
  EXPECT_THAT(begins, ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(threads_of(pool), ElementsAre(std::this_thread::get_id()));
}

TEST(ThreadPoolTest, ZeroMeansOneThreadPerCpuOfTheMask) {
  const std::vector<int> cpus = current_affinity();
  EXPECT_EQ(ThreadPool().num_threads(), static_cast<int>(cpus.size()));
  bind_process({cpus[0]});
  EXPECT_EQ(ThreadPool().num_threads(), 1);
  bind_process(cpus);
}

TEST(ThreadPoolTest, WorkersRunOnTheCpusOfTheConstructor) {
  const std::vector<int> cpus = current_affinity();
  bind_process({cpus[0]});
  ThreadPool narrow(2);
  bind_process(cpus);
  ThreadPool wide(2);

  const std::thread::id caller = std::this_thread::get_id();
  const auto worker_cpus = [&](ThreadPool& pool) {
    MeetingPoint all_here(2);
    std::vector<int> found;
    pool.parallel_for(2, 1, [&](int64_t, int64_t) {
      all_here.arrive_and_wait();
      if (std::this_thread::get_id() != caller) found = current_affinity();
    });
    return found;
  };
  EXPECT_THAT(worker_cpus(narrow), ElementsAre(cpus[0]));
  EXPECT_EQ(worker_cpus(wide), cpus);
  EXPECT_THAT(worker_cpus(narrow), ElementsAre(cpus[0]));
}

// Where a machine has several nodes, each part of a loop is worked on near one of them.
TEST(ThreadPoolTest, SlotsStayOnTheirNodes) {
  const std::vector<int> cpus = current_affinity();
  if (cpus.size() != 2 || cpus != std::vector<int>{0, 1})
    GTEST_SKIP() << "needs the CPUs 0 and 1";
  const PretendedMachine machine("numa:2 pu:1");
  ThreadPool pool(2);
  for (int i = 0; i < 20; ++i) {
    MeetingPoint all_here(2);
    std::vector<int> found[2];
    pool.parallel_for(2, 1, [&](int64_t begin, int64_t) {
      all_here.arrive_and_wait();
      found[begin] = current_affinity();
    });
    EXPECT_THAT(found[0], ::testing::SizeIs(1));
    EXPECT_THAT(found[1], ::testing::SizeIs(1));
    EXPECT_NE(found[0], found[1]);
    EXPECT_EQ(current_affinity(), cpus) << "the caller's own CPUs must come back";
  }
}

TEST(ThreadPoolTest, ExceptionsReachTheCaller) {
  for (const int num_threads : {1, 3}) {
    ThreadPool pool(num_threads);
    const auto fail = [](int64_t begin, int64_t) {
      if (begin == 50) throw std::runtime_error("chunk 50");
    };
    EXPECT_THROW(pool.parallel_for(100, 10, fail), std::runtime_error);
    EXPECT_EQ(chunks_of(pool, 100, 10).size(), 10u) << "the pool must stay usable";
  }
}

TEST(ThreadPoolTest, BodiesRoundToNearestOnEveryThread) {
  for (const int num_threads : {1, 3}) {
    std::fesetround(FE_DOWNWARD);
    ThreadPool pool(num_threads);
    MeetingPoint all_here(num_threads);
    std::atomic<int> num_nearest = 0;
    pool.parallel_for(num_threads, 1, [&](int64_t, int64_t) {
      all_here.arrive_and_wait();
      num_nearest += std::fegetround() == FE_TONEAREST;
    });
    const int mode_after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(num_nearest, num_threads);
    EXPECT_EQ(mode_after, FE_DOWNWARD) << "the caller's own mode must come back";
  }
}

TEST(ThreadPoolTest, SeveralThreadsMayCallAtOnce) {
  ThreadPool pool(2);
  std::atomic<int64_t> total = 0;
  const auto call = [&] {
    for (int i = 0; i < 50; ++i) {
      pool.parallel_for(100, 7,
                        [&](int64_t begin, int64_t end) { total += end - begin; });
    }
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(total, 2 * 50 * 100);
}

TEST(ThreadPoolTest, WrongInputThrows) {
  ThreadPool pool(1);
  const auto nothing = [](int64_t, int64_t) {};
  EXPECT_THROW(ThreadPool(-1), std::invalid_argument);
  EXPECT_THROW(pool.parallel_for(-1, 1, nothing), std::invalid_argument);
  EXPECT_THROW(pool.parallel_for(1, 0, nothing), std::invalid_argument);
}

}  // namespace
}  // namespace zero::thread_pool_test
