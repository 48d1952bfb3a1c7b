#pragma once
#include "engine/device/cuda/layer_block.h"

namespace zero {

// Those that do the same to each element: a thread has a group, or what is left of one,
// of which Own::give<kNum>(i) takes elements [i, i + kNum).
template <class Own, class T, class Pass>
struct EachElement {
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  Pass pass;
  int64_t numel = 0;

  bool takes_groups() const { return true; }
  int64_t num_blocks(int group) const {
    return (numel + kMaxThreads * group - 1) / (kMaxThreads * group);
  }
  int num_threads(int) const { return kMaxThreads; }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const Own& own = static_cast<const Own&>(*this);
    block.each_thread([&](int thread) {
      const int64_t begin = (block.index * kMaxThreads + thread) * kNum;
      if (begin + kNum <= numel) return own.template give<kNum>(begin);
      for (int64_t i = begin; i < numel; ++i) own.template give<1>(i);
    });
  }
};

}  // namespace zero
