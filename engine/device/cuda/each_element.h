#pragma once
#include "engine/device/cuda/layer_block.h"
#include "engine/layers/element_pass.h"

namespace zero {

// A thread has a group of elements, or what is left of one.
template <class T, class F>
struct Kernel<ElementPass<T, F>> {
  static constexpr const char* kName = F::kName;
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  ElementPass<T, F> pass;
  int64_t numel;

  bool takes_groups() const { return true; }
  int64_t num_blocks(int group) const {
    return (numel + kMaxThreads * group - 1) / (kMaxThreads * group);
  }
  int num_threads(int) const { return kMaxThreads; }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    using In = typename ElementPass<T, F>::In;
    using Out = typename ElementPass<T, F>::Out;
    block.each_thread([&](int thread) {
      const int64_t begin = (block.index * kMaxThreads + thread) * kNum;
      if (begin + kNum <= numel) return give<kNum>(begin, In(), Out());
      for (int64_t i = begin; i < numel; ++i) give<1>(i, In(), Out());
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    for (const T*& array : pass.in) visit(array, numel);
    for (T*& array : pass.out) visit(array, numel);
  }

 private:
  // Of elements [i, i + kNum).
  template <int kNum, size_t... kIn, size_t... kOut>
  ZERO_IN_KERNEL void give(int64_t i, std::index_sequence<kIn...>,
                           std::index_sequence<kOut...>) const {
    const Group<T, kNum> in[] = {read_group<kNum>(pass.in[kIn] + i)...};
    Group<T, kNum> out[F::kOut];
    for (int j = 0; j < kNum; ++j) F::apply(in[kIn].values[j]..., out[kOut].values[j]...);
    (write_group(pass.out[kOut] + i, out[kOut]), ...);
  }
};

}  // namespace zero
