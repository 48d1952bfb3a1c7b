#include "engine/step/addition.h"

#include <algorithm>
#include <mutex>

#include "offload/bf16.h"

namespace zero {
namespace {

// Of three arrays: they stay in the second-level cache.
constexpr int64_t kChunkNumel = 1 << 14;

// The calling thread alone.
ThreadPool& this_thread() {
  static ThreadPool pool(1);
  return pool;
}

template <class T>
T* advance(T* array, int64_t offset) {
  return array ? array + offset : nullptr;
}

void widen(const uint16_t* from, float* to, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) to[i] = bf16_to_float(from[i]);
}

void add(float* sum, const float* left, const float* right, int64_t numel) {
  const float* only = left ? left : right;
  if (left && right) {
    for (int64_t i = 0; i < numel; ++i) sum[i] = left[i] + right[i];
  } else if (!only) {
    std::fill_n(sum, numel, 0.0f);
  } else if (only != sum) {
    std::copy_n(only, numel, sum);
  }
}

// Leaves in `sum` what was stored.
void store_bf16(float* sum, uint16_t* sum_bf16, int64_t numel) {
  uint16_t rounded[kChunkNumel];
  uint16_t* to = sum_bf16 ? sum_bf16 : rounded;
  convert_to_bf16(sum, to, numel);
  widen(to, sum, numel);
}

}  // namespace

void add_up(const Addition& all, int64_t first, int64_t last, ThreadPool& threads) {
  std::mutex mutex;
  threads.parallel_for(last - first, kChunkNumel, [&](int64_t from, int64_t to) {
    const int64_t begin = first + from, chunk = to - from;
    float widened[kChunkNumel], unstored[kChunkNumel];
    const float* right = advance(all.right, begin);
    if (all.right_bf16) {
      widen(all.right_bf16 + begin, widened, chunk);
      right = widened;
    }
    float* sum = all.sum ? all.sum + begin : unstored;
    add(sum, advance(all.left, begin), right, chunk);
    if (all.sum_bf16 || all.rounds) store_bf16(sum, advance(all.sum_bf16, begin), chunk);
    if (!all.norm) return;
    GradientNorm part = all.norm->of_none();
    part.add(sum, chunk, this_thread());
    const std::lock_guard lock(mutex);
    all.norm->merge(part);
  });
}

}  // namespace zero
