#include "engine/step/addition.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/dtype.h"
#include "offload/convert.h"

namespace zero {
namespace {

constexpr int64_t kChunkNumel = 1 << 16;  // of a thread
// Small enough that the norm's arithmetic hides behind the memory of the next ones.
constexpr int64_t kBlockNumel = 256;

template <class T>
T* advance(T* array, int64_t offset) {
  return array ? array + offset : nullptr;
}

void widen(const uint16_t* from, float* to, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) to[i] = bf16_to_float(from[i]);
}

void add(float* sum, const float* left, const float* right, int64_t numel) {
  const float* only = left ? left : right;
  if (right == sum) std::swap(left, right);
  if (left && right && left == sum) {  // told apart: else the compiler fears an overlap
    for (int64_t i = 0; i < numel; ++i) sum[i] += right[i];
  } else if (left && right) {
    for (int64_t i = 0; i < numel; ++i) sum[i] = left[i] + right[i];
  } else if (!only) {
    std::fill_n(sum, numel, 0.0f);
  } else if (only != sum) {
    std::copy_n(only, numel, sum);
  }
}

// Leaves in `sum` what was stored.
void store_bf16(float* sum, uint16_t* sum_bf16, int64_t numel) {
  uint16_t rounded[kBlockNumel];
  uint16_t* to = sum_bf16 ? sum_bf16 : rounded;
  convert_to_bf16(sum, to, numel);
  widen(to, sum, numel);
}

// Elements [begin, end), a block at most.
void add_block(const Addition& all, int64_t begin, int64_t end, GradientNorm* norm) {
  const int64_t numel = end - begin;
  float widened[kBlockNumel], unstored[kBlockNumel];
  const float* right = advance(all.right, begin);
  if (all.right_bf16) {
    widen(all.right_bf16 + begin, widened, numel);
    right = widened;
  }
  float* sum = all.sum ? all.sum + begin : unstored;
  add(sum, advance(all.left, begin), right, numel);
  if (all.sum_bf16 || all.rounds) store_bf16(sum, advance(all.sum_bf16, begin), numel);
  if (norm) norm->add(sum, numel);
}

}  // namespace

void Addition::point_to(const void* values, DType type) {
  right = type == DType::kFp32 ? static_cast<const float*>(values) : nullptr;
  right_bf16 = type == DType::kFp32 ? nullptr : static_cast<const uint16_t*>(values);
}

Addition from(Addition addition, int64_t begin) {
  addition.left = advance(addition.left, begin);
  addition.right = advance(addition.right, begin);
  addition.right_bf16 = advance(addition.right_bf16, begin);
  addition.sum = advance(addition.sum, begin);
  addition.sum_bf16 = advance(addition.sum_bf16, begin);
  return addition;
}

void add_up(const Addition& all, int64_t first, int64_t last, ThreadPool& threads) {
  std::mutex mutex;
  threads.parallel_for(last - first, kChunkNumel, [&](int64_t from, int64_t to) {
    std::optional<GradientNorm> part;
    if (all.norm) part = all.norm->of_none();
    for (int64_t begin = from; begin < to; begin += kBlockNumel) {
      add_block(all, first + begin, first + std::min(begin + kBlockNumel, to),
                part ? &*part : nullptr);
    }
    if (!part) return;
    const std::lock_guard lock(mutex);
    all.norm->merge(*part);
  });
}

}  // namespace zero
