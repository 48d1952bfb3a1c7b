#include "launcher/bench/sweep.h"

#include <atomic>

#include "launcher/bench/sweep_loop.h"
#include "offload/thread_pool.h"

namespace zero::launcher {
namespace {

std::atomic<uint32_t> no_bits = 0;

constexpr int64_t kChunkNumel = 1 << 16;  // as an update's

}  // namespace

void sweep(const SweptArrays& arrays, ThreadPool& threads) {
  threads.parallel_for(arrays.numel, kChunkNumel,
                       [&, loop = fastest_sweep()](int64_t begin, int64_t end) {
                         loop(arrays, begin, end, no_bits.load());
                       });
}

}  // namespace zero::launcher
