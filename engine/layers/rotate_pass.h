#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "engine/layers/elements.h"

namespace zero {

// Which values of a head are a pair: those `half` apart, or side by side.
enum class Pairs { kHalves, kNeighbours };

// Elements from one to the next of each dimension but the last, where it is 1.
struct HeadStrides {
  int64_t batch, head, position;
};

// rotate_halves() and rotate_pairs() of (B, H, T, D), by positions (B * T); with the sine
// times `direction`, -1 in their backward, and its opposite.
template <class T, Pairs kPairs>
struct RotatePass {
  const T* x;
  const T *cos, *sin;  // (T, half), or (B * T, half)
  T* y;
  HeadStrides from, to;  // of x and y
  int64_t num_heads, length, dim, half;
  int64_t num_angles;  // rows of cos
  Wide<T> direction, opposite;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / length, position = i % length;
      const T* in = x + row * from.batch + position * from.position;
      T* out = y + row * to.batch + position * to.position;
      for (int64_t head = 0; head < num_heads; ++head)
        turn(in + head * from.head, i % num_angles, out + head * to.head);
    }
  }

 private:
  [[gnu::always_inline]] void turn(const T* __restrict in, int64_t position,
                                   T* __restrict out) const {
    const T* __restrict c = cos + position * half;
    const T* __restrict s = sin + position * half;
    for (int64_t j = 0; j < half; ++j) {
      const int64_t a = kPairs == Pairs::kHalves ? j : 2 * j;
      const int64_t b = kPairs == Pairs::kHalves ? j + half : 2 * j + 1;
      rotate_pair(in[a], in[b], c[j], wide(s[j]) * direction, wide(s[j]) * opposite,
                  out[a], out[b]);
    }
    for (int64_t j = 2 * half; j < dim; ++j) out[j] = in[j];
  }
};

}  // namespace zero
