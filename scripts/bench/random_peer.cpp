// Our first values behind a C interface, for scripts/bench/first_values.py to call on
// torch's arrays.
#include "offload/random.h"
#include "offload/thread_pool.h"

namespace {

void fill(const zero::Draw& draw, float* values, int64_t numel, int num_threads) {
  static zero::ThreadPool threads(num_threads);  // one number a process
  threads.parallel_for(numel, 1 << 16, [&](int64_t begin, int64_t end) {
    zero::fill_random(draw, 1, begin, {values + begin, values + end});
  });
}

}  // namespace

extern "C" void zero_normal(float* values, int64_t numel, int num_threads) {
  fill(zero::normal_draw(0, 0.02), values, numel, num_threads);
}
extern "C" void zero_uniform(float* values, int64_t numel, int num_threads) {
  fill(zero::uniform_draw(-0.02, 0.02), values, numel, num_threads);
}
extern "C" void zero_truncated_normal(float* values, int64_t numel, int num_threads) {
  fill(zero::truncated_normal_draw(0, 0.02, -0.04, 0.04), values, numel, num_threads);
}
