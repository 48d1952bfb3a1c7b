#include "offload/fastest_threads.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/seconds.h"
#include "offload/affinity.h"
#include "offload/host_arena.h"
#include "offload/sweep.h"
#include "offload/thread_pool.h"
#include "offload/update.h"

namespace zero {
namespace {

constexpr int64_t kArrays = 4;
constexpr int64_t kFewestBytes = 64 << 20, kMostBytes = 1 << 30;  // of all arrays
constexpr size_t kFewestRounds = 3, kMostRounds = 9;
constexpr double kSecondsOfRounds = 0.08;  // no more rounds than the fewest after that

// Elements of an array: all of them are twice what the caches hold.
int64_t most_params() {
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // -1: nobody knows
  return std::clamp(2 * cache, kFewestBytes, kMostBytes) / kArrays /
         int64_t{sizeof(float)};
}

// The optimizer's arrays. Pages that nobody has written are all one and the same, and
// never leave the cache.
class Scratch {
 public:
  Scratch(ThreadPool& threads, int64_t most_bytes)
      : numel_(std::clamp<int64_t>(most_bytes / (kArrays * kAligned) * kAligned / 4,
                                   kAligned / 4, most_params())) {
    for (float*& array : arrays_) array = arena_.allocate_array<float>("scratch", numel_);
    threads.parallel_for(numel_, kUpdateChunkNumel, [this](int64_t begin, int64_t end) {
      for (float* array : arrays_) std::fill(array + begin, array + end, 1.0f);
    });
  }

  UpdatePiece piece() const {
    return {.grad = arrays_[0],
            .master = arrays_[1],
            .state = {arrays_[2], arrays_[3]},
            .numel = numel_};
  }

 private:
  static constexpr int64_t kAligned = 64;  // bytes of an array

  int64_t numel_;
  HostArena arena_{"threads to try", kArrays* numel_* int64_t{sizeof(float)}};
  std::array<float*, kArrays> arrays_;
};

using Clock = std::chrono::steady_clock;

double seconds_of_sweep(const Scratch& scratch, ThreadPool& threads) {
  const auto begin = Clock::now();
  sweep(scratch.piece(), threads);
  return seconds_since(begin);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

// In turn, so that whatever else the machine does in this moment meets all of them.
std::vector<ThreadRate> thread_rates(const std::vector<int>& counts, int64_t most_bytes) {
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (const int count : counts) pools.push_back(std::make_unique<ThreadPool>(count));
  const Scratch scratch(*pools.back(), most_bytes);  // and starts the threads

  std::vector<std::vector<double>> seconds(counts.size());
  const auto begin = Clock::now();
  for (size_t round = 0; round < kMostRounds; ++round) {
    if (round >= kFewestRounds && seconds_since(begin) > kSecondsOfRounds) break;
    for (size_t i = 0; i < counts.size(); ++i)
      seconds[i].push_back(seconds_of_sweep(scratch, *pools[i]));
  }
  const auto bytes = static_cast<double>(swept_bytes(scratch.piece()));
  std::vector<ThreadRate> rates;
  for (size_t i = 0; i < counts.size(); ++i)
    rates.push_back({counts[i], bytes / median(seconds[i])});
  return rates;
}

ThreadChoice fastest_threads(int64_t most_bytes) {
  const std::vector<int> counts =
      threads_to_try(static_cast<int>(current_affinity().size()));
  if (counts.size() == 1 || most_bytes == 0) return {};
  std::vector<ThreadRate> rates = thread_rates(counts, most_bytes);
  return {fewest_of_the_fastest(rates), std::move(rates)};
}

std::vector<int> threads_to_try(int num_cpus) {
  std::vector<int> counts;
  for (int count = 1; count < num_cpus; count *= 2) counts.push_back(count);
  counts.push_back(num_cpus);
  return counts;
}

int fewest_of_the_fastest(const std::vector<ThreadRate>& rates) {
  constexpr double kNearlyAll = 0.95;
  assert(std::ranges::is_sorted(rates, {}, &ThreadRate::threads));
  const double best =
      std::ranges::max(rates, {}, &ThreadRate::bytes_per_second).bytes_per_second;
  return std::ranges::find_if(rates,
                              [&](const ThreadRate& rate) {
                                return rate.bytes_per_second >= kNearlyAll * best;
                              })
      ->threads;
}

}  // namespace zero
