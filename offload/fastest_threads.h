#pragma once

#include <vector>

namespace zero {

// What so many threads move of the optimizer's bytes.
struct ThreadRate {
  int threads = 1;
  double bytes_per_second = 0;
};

struct ThreadChoice {
  int threads = 1;
  std::vector<ThreadRate> rates;  // empty: nothing was measured
};

// Try what number of threads AdamW needs: one, two, four ... and as many as the calling
// thread has CPUs sweep over scratch memory as the optimizer does over its state, without
// its arithmetic: over twice what the caches hold, 64 MiB to 1 GiB, or `most_bytes` where
// that is less.
//
// Takes a tenth of a second or a few, and nothing where there is one CPU or nothing to
// update. Bind the process before. Processes that share a memory do it at the same time,
// as they will share it in every step; the results need not be equal, and change no bit
// of what is trained. Throws HostMemoryError.
ThreadChoice fastest_threads(int64_t most_bytes);

// What each of these numbers of threads moves so, measured in turn; the last one is the
// largest. In the same memory. Throws HostMemoryError.
std::vector<ThreadRate> thread_rates(const std::vector<int>& counts, int64_t most_bytes);

// Those that are tried, ascending.
std::vector<int> threads_to_try(int num_cpus);

// The fewest threads that reach 95 % of the best rate: what more of them would take from
// the model's threads brings nothing. `rates` ascend in threads, and are not empty.
int fewest_of_the_fastest(const std::vector<ThreadRate>& rates);

}  // namespace zero
