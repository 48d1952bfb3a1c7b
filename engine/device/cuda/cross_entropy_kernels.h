#pragma once
#include "engine/device/cuda/layer_block.h"
#include "engine/layers/cross_entropy_pass.h"

namespace zero {

// A block has a row. A target that is neither a class nor -1 breaks the GPU, as with
// LibTorch: the host would have to wait to refuse it.
template <class T>
struct Kernel<CrossEntropyPass<T>> {
  static constexpr const char* kName = "a loss";
  static constexpr bool kSumsRows = true;
  static constexpr int kGroup = kGroupOf<T>;
  CrossEntropyPass<T> pass;
  int64_t num_rows;

  bool takes_groups() const { return pass.classes % kGroup == 0; }
  int64_t num_blocks(int) const { return num_rows; }
  int num_threads(int) const { return threads_of_row(pass.classes); }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const int64_t row = block.index, target = pass.targets[row];
    if (target >= 0 && target < pass.classes) return take<kNum>(block, row, target);
    if (target != -1) block.fail();
    block.each_thread([&](int thread) {
      if (thread == 0) pass.losses[row] = 0;
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.logits, num_rows * pass.classes), visit(pass.targets, num_rows);
    visit(pass.losses, num_rows), visit(pass.kept, num_rows * kNumbersOfRow);
  }

 private:
  template <int kNum, class Block>
  ZERO_IN_KERNEL void take(Block& block, int64_t row, int64_t target) const {
    const T* const in = pass.logits + row * pass.classes;
    const float largest = 0 + largest_in_block<kNum>(block, pass.classes, [&](int64_t i) {
                            const auto logits = read_group<kNum>(in + i);
                            Group<float, kNum> values;
                            for (int j = 0; j < kNum; ++j)
                              values.values[j] = wide(logits.values[j]);
                            return values;
                          });
    const float sum = sum_in_block<kNum>(block, pass.classes, [&](int64_t i) {
      const auto logits = read_group<kNum>(in + i);
      Group<float, kNum> terms;
      for (int j = 0; j < kNum; ++j)
        terms.values[j] = softmax_term(logits.values[j], largest);
      return terms;
    });
    block.each_thread([&](int thread) {
      if (thread != 0) return;
      pass.losses[row] = row_loss(sum, largest, wide(in[target]));
      if (!pass.kept) return;
      pass.kept[row * kNumbersOfRow] = largest;
      pass.kept[row * kNumbersOfRow + 1] = 1 / sum;
    });
  }
};

// One block; a thread has a lane, and leaves it where its first loss was.
template <>
struct Kernel<SumLossesPass> {
  static constexpr const char* kName = "a sum of losses";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = 1;
  SumLossesPass pass;
  int64_t num_sums;  // 1: of all rows

  bool takes_groups() const { return false; }
  int64_t num_blocks(int) const { return num_sums; }
  int num_threads(int) const { return kLossLanes; }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    block.each_thread([&](int thread) {
      if (thread < pass.rows) pass.losses[thread] = lane_of(thread);
    });
    for (int width = kLossLanes / 2; width > 0; width /= 2) {
      block.each_thread([&](int thread) {
        if (thread < width && thread + width < pass.rows)
          pass.losses[thread] += pass.losses[thread + width];
      });
    }
    block.each_thread([&](int thread) {
      if (thread == 0) *pass.sum = pass.losses[0];
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.losses, pass.rows), visit(pass.sum, 1);
  }

 private:
  ZERO_IN_KERNEL double lane_of(int thread) const {
    double lane = 0;
    for (int64_t i = thread; i < pass.rows; i += kLossLanes) lane += pass.losses[i];
    return lane;
  }
};
static_assert(kLossLanes <= kMaxThreads);

// A block has a row, whose elements a thread takes by themselves.
template <class T>
struct Kernel<CrossEntropyBackwardPass<T>> {
  static constexpr const char* kName = "a loss's gradient";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  CrossEntropyBackwardPass<T> pass;
  int64_t num_rows;

  bool takes_groups() const { return pass.classes % kGroup == 0; }
  int64_t num_blocks(int) const { return num_rows; }
  int num_threads(int group) const { return threads_for(pass.classes / group); }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const int64_t row = block.index, target = pass.targets[row];
    T* const values = pass.logits + row * pass.classes;
    const float largest = pass.kept[row * kNumbersOfRow], factor = *pass.factor;
    const float scale = pass.kept[row * kNumbersOfRow + 1] * factor;
    block.each_thread([&](int thread) {
      for (int64_t i = thread * kNum; i < pass.classes; i += block.num_threads * kNum) {
        Group<T, kNum> grads = {};
        if (target >= 0) {
          const auto logits = read_group<kNum>(values + i);
          for (int j = 0; j < kNum; ++j)
            cross_entropy_gradient(logits.values[j], largest, scale,
                                   i + j == target ? factor : 0.f, grads.values[j]);
        }
        write_group(values + i, grads);
      }
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.logits, num_rows * pass.classes), visit(pass.targets, num_rows);
    visit(pass.kept, num_rows * kNumbersOfRow), visit(pass.factor, 1);
  }
};

}  // namespace zero
