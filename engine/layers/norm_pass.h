#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/layers/elements.h"
#include "engine/layers/rows.h"

namespace zero {

// A pass is its arrays, and run(begin, end): what is done to that part of them.

// rms_norm() of rows that lie end to end, or of sums of two.
template <class T>
struct RmsNormPass {
  const T* x;       // (rows, dim)
  const T* weight;  // (dim)
  T* y;             // (rows, dim)
  Wide<T>* scales;  // (rows), or null
  int64_t dim;
  Wide<T> eps;
  const T* added = nullptr;  // (rows, dim): the norm is that of total = x + added
  T* total = nullptr;        // (rows, dim)

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      if (added) add(row);
      const T* __restrict in = (added ? total : x) + row * dim;
      T* __restrict out = y + row * dim;
      const auto square = [=](int64_t i) __attribute__((always_inline)) {
        return wide(in[i]) * wide(in[i]);
      };
      const Wide<T> sum = sum_in_lanes<Wide<T>>(dim, square);
      const Wide<T> scale = rms_scale<Wide<T>>(sum / static_cast<Wide<T>>(dim), eps);
      if (scales) scales[row] = scale;
      if (row + 1 < end) ask_for(x + (row + 1) * dim, dim);
      for (int64_t i = 0; i < dim; ++i) rms_norm_element(in[i], weight[i], scale, out[i]);
    }
  }

 private:
  [[gnu::always_inline]] void add(int64_t row) const {
    const T* __restrict a = x + row * dim;
    const T* __restrict b = added + row * dim;
    T* __restrict sum = total + row * dim;
    for (int64_t i = 0; i < dim; ++i) add_element(a[i], b[i], sum[i]);
  }
};

// Rows whose gradients of the weight one sum holds.
inline constexpr int64_t kRowsOfSum = 32;

// Its gradients, by blocks of kRowsOfSum rows.
template <class T>
struct RmsNormBackwardPass {
  const T *x, *weight, *grad;  // (rows, dim), (dim), (rows, dim)
  const Wide<T>* scales;       // (rows)
  T* x_grad;                   // (rows, dim), or null
  Wide<T>* sums;               // (blocks, dim): weight's; or null
  int64_t num_rows, dim;
  const T* more = nullptr;  // (rows, dim): what else x_grad gets, or null

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRowsOfSum;
      const int64_t last = std::min(num_rows, first + kRowsOfSum);
      Wide<T>* sum = sums ? sums + block * dim : nullptr;
      if (sum) std::fill_n(sum, dim, Wide<T>{0});
      for (int64_t row = first; row < last; ++row) {
        if (x_grad) give_x(row);
        if (sum) add_weight(row, sum);
      }
    }
  }

 private:
  [[gnu::always_inline]] void give_x(int64_t row) const {
    const T* __restrict in = x + row * dim;
    const T* __restrict given = grad + row * dim;
    const T* __restrict factors = weight;
    T* __restrict out = x_grad + row * dim;
    const Wide<T> scale = scales[row];
    const auto product = [=](int64_t i) __attribute__((always_inline)) {
      return rms_norm_product(given[i], factors[i], in[i], scale);
    };
    const Wide<T> mean = sum_in_lanes<Wide<T>>(dim, product) / static_cast<Wide<T>>(dim);
    for (int64_t i = 0; i < dim; ++i)
      rms_norm_gradient(given[i], factors[i], in[i], scale, mean, out[i]);
    if (!more) return;
    const T* __restrict others = more + row * dim;
    for (int64_t i = 0; i < dim; ++i) add_element(out[i], others[i], out[i]);
  }
  [[gnu::always_inline]] void add_weight(int64_t row, Wide<T>* __restrict sum) const {
    const T* __restrict in = x + row * dim;
    const T* __restrict given = grad + row * dim;
    const Wide<T> scale = scales[row];
    for (int64_t i = 0; i < dim; ++i)
      sum[i] += rms_norm_weight_gradient(given[i], in[i], scale);
  }
};

// What the blocks' sums come to, by tiles of kColumnsOfTile columns: in fp64, so that any
// number of blocks costs no precision.
inline constexpr int64_t kColumnsOfTile = 64;

template <class T>
struct SumBlocksPass {
  const Wide<T>* sums;  // (blocks, dim)
  T* sum;               // (dim)
  int64_t num_blocks, dim;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile * kColumnsOfTile;
      const int64_t columns = std::min(dim - first, kColumnsOfTile);
      double totals[kColumnsOfTile] = {};
      for (int64_t block = 0; block < num_blocks; ++block) {
        for (int64_t i = 0; i < columns; ++i) totals[i] += sums[block * dim + first + i];
      }
      for (int64_t i = 0; i < columns; ++i)
        put(static_cast<Wide<T>>(totals[i]), sum[first + i]);
    }
  }
};

}  // namespace zero
