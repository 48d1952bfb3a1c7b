#pragma once
#include <cassert>
#include <cstdint>

#include "offload/bf16.h"
#include "offload/exact_term.h"
#include "offload/leaf_loop.h"
#include "offload/update_loop.h"

// What each kernel does to its elements, compiled for GPU and host alike: a GPU made of
// threads runs the same.
//
// A kernel is its arrays, and
//     num_items(width)           how often it is run, if it takes `width` elements at once
//     run<width>(item)           its share of the work
//     arrays(visit)              calls visit(pointer, numel) for each array; null: none
//     takes_groups()             whether kGroup elements may be taken at once, once all
//                                arrays begin at multiples of 16 bytes
namespace zero {

inline constexpr int kGroup = 4;  // 16 bytes of fp32

// Neighbours in an array, read and written at once. A GPU fails where they do not begin
// at a multiple of their size; the stand-in's asserts do.
template <class T, int kNum>
struct alignas(sizeof(T) * kNum) Group {
  T values[kNum];
};

template <int kNum, class T>
ZERO_HOST_DEVICE Group<T, kNum> read_group(const T* from) {
  assert(reinterpret_cast<uintptr_t>(from) % sizeof(Group<T, kNum>) == 0);
  return *reinterpret_cast<const Group<T, kNum>*>(from);
}

template <int kNum, class T>
ZERO_HOST_DEVICE void write_group(T* to, const Group<T, kNum>& group) {
  assert(reinterpret_cast<uintptr_t>(to) % sizeof(Group<T, kNum>) == 0);
  *reinterpret_cast<Group<T, kNum>*>(to) = group;
}

// Kernels that do the same to each of `numel` elements.
struct Elementwise {
  int64_t numel = 0;

  ZERO_HOST_DEVICE bool takes_groups() const { return true; }
};

// --- the sum of pieces

// Of `num_pieces` numbers below 2^kLevels: a binary counter of partial sums, in which
// level l holds the sum of 2^l neighbours.
template <int kNum, int kLevels, class T>
ZERO_HOST_DEVICE Group<float, kNum> sum_of_pieces(const T* pieces, int64_t stride,
                                                  int num_pieces) {
  Group<float, kNum> partial[kLevels] = {}, sum = {};
  for (int i = 0; i < num_pieces; ++i) {
    const Group<T, kNum> piece = read_group<kNum>(pieces + i * stride);
    for (int j = 0; j < kNum; ++j) sum.values[j] = load(piece.values[j]);
    bool is_carried = true;
    for (int level = 0; level < kLevels; ++level) {
      const bool is_taken = (i >> level & 1) != 0;
      for (int j = 0; j < kNum; ++j) {
        float& left = partial[level].values[j];
        if (is_carried && is_taken) sum.values[j] = left + sum.values[j];
        if (is_carried && !is_taken) left = sum.values[j];
      }
      is_carried = is_carried && is_taken;
    }
  }
  bool is_first = true;
  for (int level = 0; level < kLevels; ++level) {
    if ((num_pieces >> level & 1) == 0) continue;
    for (int j = 0; j < kNum; ++j) {
      const float left = partial[level].values[j];
      sum.values[j] = is_first ? left : left + sum.values[j];
    }
    is_first = false;
  }
  return sum;
}

struct TreeSum : Elementwise {
  float* to = nullptr;
  const float* pieces = nullptr;
  const uint16_t* pieces_bf16 = nullptr;  // or else these
  int num_pieces = 0;
  int64_t stride = 0;

  static constexpr int kFewLevels = 5, kAllLevels = 31;
  ZERO_HOST_DEVICE bool are_few() const { return num_pieces >> kFewLevels == 0; }
  ZERO_HOST_DEVICE bool takes_groups() const { return are_few() && stride % 8 == 0; }

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) const {
    if (pieces)
      sum<kNum>(pieces + begin, begin);
    else
      sum<kNum>(pieces_bf16 + begin, begin);
  }
  template <int kNum, class T>
  ZERO_HOST_DEVICE void sum(const T* from, int64_t begin) const {
    if (kNum > 1 || are_few())
      write_group(to + begin, sum_of_pieces<kNum, kFewLevels>(from, stride, num_pieces));
    else
      write_group(to + begin, sum_of_pieces<1, kAllLevels>(from, stride, num_pieces));
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    const int64_t pieces_numel = (num_pieces - 1) * stride + numel;
    visit(to, numel), visit(pieces, pieces_numel), visit(pieces_bf16, pieces_numel);
  }
};

}  // namespace zero
