#pragma once
#include "engine/device/cuda/layer_block.h"

namespace zero {

// A block has a row.
template <class T>
struct Kernel<RmsNormPass<T>> {
  static constexpr const char* kName = "a norm";
  static constexpr bool kSumsRows = true;
  static constexpr int kGroup = kGroupOf<T>;
  RmsNormPass<T> pass;
  int64_t num_rows;

  bool takes_groups() const { return pass.dim % kGroup == 0; }
  int64_t num_blocks(int) const { return num_rows; }
  int num_threads(int) const { return threads_of_row(pass.dim); }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const int64_t dim = pass.dim, row = block.index;
    const T* const in = (pass.added ? pass.total : pass.x) + row * dim;
    const float sum = sum_in_block<kNum>(block, dim, [&](int64_t i) {
      if (pass.added) add<kNum>(row * dim + i);
      const auto x = read_group<kNum>(in + i);
      Group<float, kNum> squares;
      for (int j = 0; j < kNum; ++j)
        squares.values[j] = wide(x.values[j]) * wide(x.values[j]);
      return squares;
    });
    const float scale = rms_scale<float>(sum / static_cast<float>(dim), pass.eps);
    block.each_thread([&](int thread) {
      if (pass.scales && thread == 0) pass.scales[row] = scale;
      for (int64_t i = thread * kNum; i < dim; i += block.num_threads * kNum) {
        const auto x = read_group<kNum>(in + i),
                   weight = read_group<kNum>(pass.weight + i);
        Group<T, kNum> y;
        for (int j = 0; j < kNum; ++j)
          rms_norm_element(x.values[j], weight.values[j], scale, y.values[j]);
        write_group(pass.y + row * dim + i, y);
      }
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.x, num_rows * pass.dim), visit(pass.weight, pass.dim);
    visit(pass.y, num_rows * pass.dim), visit(pass.scales, num_rows);
    visit(pass.added, num_rows * pass.dim), visit(pass.total, num_rows * pass.dim);
  }

 private:
  // Whoever reads these elements behind the row's sum comes behind a barrier.
  template <int kNum>
  ZERO_IN_KERNEL void add(int64_t i) const {
    const auto x = read_group<kNum>(pass.x + i), added = read_group<kNum>(pass.added + i);
    Group<T, kNum> sum;
    for (int j = 0; j < kNum; ++j)
      add_element(x.values[j], added.values[j], sum.values[j]);
    write_group(pass.total + i, sum);
  }
};

// A block has kRowsOfSum rows, one after the other; a thread the same columns of each.
template <class T>
struct Kernel<RmsNormBackwardPass<T>> {
  static constexpr const char* kName = "a norm's gradients";
  static constexpr bool kSumsRows = true;
  static constexpr int kGroup = kGroupOf<T>;
  RmsNormBackwardPass<T> pass;
  int64_t blocks;

  bool takes_groups() const { return pass.dim % kGroup == 0; }
  int64_t num_blocks(int) const { return blocks; }
  int num_threads(int) const { return threads_of_row(pass.dim); }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const int64_t first = block.index * kRowsOfSum;
    const int64_t end = first + kRowsOfSum;
    for (int64_t row = first; row < end && row < pass.num_rows; ++row) {
      const float mean = pass.x_grad ? mean_product<kNum>(block, row) : 0;
      block.each_thread([&](int thread) {
        for (int64_t i = thread * kNum; i < pass.dim; i += block.num_threads * kNum)
          give<kNum>(row, i, mean, row == first);
      });
    }
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    const int64_t numel = pass.num_rows * pass.dim;
    visit(pass.x, numel), visit(pass.weight, pass.dim), visit(pass.grad, numel);
    visit(pass.scales, pass.num_rows), visit(pass.x_grad, numel);
    visit(pass.sums, blocks * pass.dim), visit(pass.more, numel);
  }

 private:
  template <int kNum, class Block>
  ZERO_IN_KERNEL float mean_product(Block& block, int64_t row) const {
    const int64_t dim = pass.dim;
    const float scale = pass.scales[row];
    const float sum = sum_in_block<kNum>(block, dim, [&](int64_t i) {
      const auto x = read_group<kNum>(pass.x + row * dim + i);
      const auto grad = read_group<kNum>(pass.grad + row * dim + i);
      const auto weight = read_group<kNum>(pass.weight + i);
      Group<float, kNum> products;
      for (int j = 0; j < kNum; ++j)
        products.values[j] =
            rms_norm_product(grad.values[j], weight.values[j], x.values[j], scale);
      return products;
    });
    return sum / static_cast<float>(dim);
  }

  // What elements [i, i + kNum) of a row give: the gradients of x, and their part of the
  // sum of these rows.
  template <int kNum>
  ZERO_IN_KERNEL void give(int64_t row, int64_t i, float mean, bool is_first) const {
    const float scale = pass.scales[row];
    const auto x = read_group<kNum>(pass.x + row * pass.dim + i);
    const auto grad = read_group<kNum>(pass.grad + row * pass.dim + i);
    if (pass.x_grad) {
      const auto weight = read_group<kNum>(pass.weight + i);
      Group<T, kNum> x_grad;
      for (int j = 0; j < kNum; ++j)
        rms_norm_gradient(grad.values[j], weight.values[j], x.values[j], scale, mean,
                          x_grad.values[j]);
      if (pass.more) {
        const auto more = read_group<kNum>(pass.more + row * pass.dim + i);
        for (int j = 0; j < kNum; ++j)
          add_element(x_grad.values[j], more.values[j], x_grad.values[j]);
      }
      write_group(pass.x_grad + row * pass.dim + i, x_grad);
    }
    if (!pass.sums) return;
    float* const own = pass.sums + row / kRowsOfSum * pass.dim + i;
    constexpr int kPart = kNum < 4 ? kNum : 4;  // 16 bytes of fp32
    for (int part = 0; part < kNum; part += kPart) {
      Group<float, kPart> sum = {};
      if (!is_first) sum = read_group<kPart>(own + part);
      for (int j = 0; j < kPart; ++j)
        sum.values[j] +=
            rms_norm_weight_gradient(grad.values[part + j], x.values[part + j], scale);
      write_group(own + part, sum);
    }
  }
};

// A thread has a column.
template <class T>
struct Kernel<SumBlocksPass<T>> {
  static constexpr const char* kName = "a sum of blocks";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = 1;
  SumBlocksPass<T> pass;
  int64_t num_tiles;

  bool takes_groups() const { return false; }
  int64_t num_blocks(int) const { return num_tiles * (kColumnsOfTile / kRowLanes); }
  int num_threads(int) const {
    return kRowLanes;
  }  // few columns keep many processors busy

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    block.each_thread([&](int thread) {
      const int64_t column = block.index * kRowLanes + thread;
      if (column < pass.dim) put(static_cast<float>(total_of(column)), pass.sum[column]);
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.sums, pass.num_blocks * pass.dim), visit(pass.sum, pass.dim);
  }

 private:
  // So many are asked for at once; a zero more changes no sum that began with one.
  ZERO_IN_KERNEL double total_of(int64_t column) const {
    constexpr int kAtOnce = 16;
    double total = 0;
    for (int64_t block = 0; block < pass.num_blocks; block += kAtOnce) {
      float found[kAtOnce];
      for (int j = 0; j < kAtOnce; ++j) {
        const bool is_there = block + j < pass.num_blocks;
        found[j] = is_there ? pass.sums[(block + j) * pass.dim + column] : 0;
      }
      for (const float sum : found) total += sum;
    }
    return total;
  }
};

}  // namespace zero
