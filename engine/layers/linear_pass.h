#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/layers/rows.h"

namespace zero {

// What both passes compute with.
struct LinearArrays {
  const float* x;       // (rows, in)
  const float* weight;  // (out, in); of the transposed pass (in, out)
  const float* bias;    // (out), or null
  float* y;             // (rows, out)
  int64_t rows, in, out;
};

// linear() of a few rows of fp32, whose time is that of reading the weight, which is read
// once, from its begin to its end. Items are output features.
struct LinearPass : LinearArrays {
  // A row up to this length stays in the fastest cache beside what is read. A longer one
  // comes from the next cache, and so serves several features at once.
  static constexpr int64_t kShort = 3072;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    const int64_t step = std::max<int64_t>(1, kKept / in);
    for (int64_t first = begin; first < end; first += step)
      of_features(first, std::min(end, first + step));
  }

 private:
  // Elements of the weight that stay in the second cache while rows pass by four at a
  // time, so that these stay in the first.
  static constexpr int64_t kKept = 1 << 16;

  [[gnu::always_inline]] void of_features(int64_t begin, int64_t end) const {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) of_rows<4>(begin, end, row);
    for (; row + 2 <= rows; row += 2) of_rows<2>(begin, end, row);
    if (row < rows) of_rows<1>(begin, end, row);
  }

  template <int kRows>
  [[gnu::always_inline]] void of_rows(int64_t begin, int64_t end, int64_t row) const {
    int64_t feature = begin;
    if (kRows == 1 && in > kShort)
      for (; feature + 4 <= end; feature += 4) add_up<4, 1>(feature, row);
    for (; feature < end; ++feature) add_up<1, kRows>(feature, row);
  }

  // Of so many features and rows from these on: each sum in the same order, whatever is
  // beside it.
  template <int kFeatures, int kRows>
  [[gnu::always_inline]] void add_up(int64_t feature, int64_t row) const {
    const float* const of_feature = weight + feature * in;
    const float* const of_row = x + row * in;
    float lanes[kFeatures][kRows][kRowLanes] = {};
    int64_t i = 0;
    const auto add = [&](int f, int r, int64_t j) __attribute__((always_inline)) {
      lanes[f][r][j] += of_row[r * in + i + j] * of_feature[f * in + i + j];
    };
    for (; i + kRowLanes <= in; i += kRowLanes) {
      for (int f = 0; f < kFeatures; ++f) {
        for (int r = 0; r < kRows; ++r) {
          for (int64_t j = 0; j < kRowLanes; ++j) add(f, r, j);
        }
      }
    }
    for (int f = 0; f < kFeatures; ++f) {
      for (int r = 0; r < kRows; ++r) {
        if (i < in)
          for (int64_t j = 0; i + j < in; ++j) add(f, r, j);
        fold_lanes<kRowLanes / 2>(lanes[f][r]);
        const float sum = lanes[f][r][0];
        y[(row + r) * out + feature + f] = bias ? sum + bias[feature + f] : sum;
      }
    }
  }
};

// The same with the weight as (in, out). Its rows are read in pieces as wide as what is
// summed at once. Sums of a span of it are added up.
struct TransposedLinearPass : LinearArrays {
  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    int64_t row = 0;
    for (; row + 4 <= rows; row += 4) of_rows<4>(row, begin, end);
    for (; row + 2 <= rows; row += 2) of_rows<2>(row, begin, end);
    if (row < rows) of_rows<1>(row, begin, end);
  }

 private:
  static constexpr int64_t kSums = 512, kSpan = 128;

  template <int kRows>
  [[gnu::always_inline]] void of_rows(int64_t row, int64_t begin, int64_t end) const {
    constexpr int64_t kWidth = kSums / kRows;
    int64_t first = begin;
    for (; first + kWidth <= end; first += kWidth) add_up<kRows>(row, first, kWidth);
    if (first < end) add_up<kRows>(row, first, end - first);
  }

  // Features [first, first + width).
  template <int kRows>
  [[gnu::always_inline]] void add_up(int64_t row, int64_t first, int64_t width) const {
    float sums[kRows][kSums / kRows] = {};
    for (int64_t from = 0; from < in; from += kSpan) {
      float of_span[kRows][kSums / kRows] = {};
      for (int64_t i = from; i < std::min(in, from + kSpan); ++i) {
        const float* const weights = weight + i * out + first;
        for (int r = 0; r < kRows; ++r) {
          const float value = x[(row + r) * in + i];
          for (int64_t j = 0; j < width; ++j) of_span[r][j] += value * weights[j];
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (int64_t j = 0; j < width; ++j) sums[r][j] += of_span[r][j];
      }
    }
    for (int r = 0; r < kRows; ++r) {
      float* const to = y + (row + r) * out + first;
      for (int64_t j = 0; j < width; ++j)
        to[j] = bias ? sums[r][j] + bias[first + j] : sums[r][j];
    }
  }
};

}  // namespace zero
