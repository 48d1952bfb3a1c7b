#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace zero {

// The order of a row's sum: lanes of every 32nd element, span by span.
inline constexpr int64_t kRowLanes = 32, kRowSpan = 1024;

// Add the upper half of 2 * kWidth lanes to the lower one, until their sum is the first.
template <int64_t kWidth, class W>
[[gnu::always_inline]] inline void fold_lanes(W* lanes) {
  for (int64_t j = 0; j < kWidth; ++j) lanes[j] += lanes[j + kWidth];
  if constexpr (kWidth > 1) fold_lanes<kWidth / 2>(lanes);
}

// The sum of term(0) ... term(n - 1), in an order that depends on n alone: lanes that
// compilers turn into vectors, span by span.
template <class W, class Term>
[[gnu::always_inline]] inline W sum_in_lanes(int64_t n, const Term& term) {
  W sum = 0;
  for (int64_t begin = 0; begin < n; begin += kRowSpan) {
    const int64_t end = std::min(n, begin + kRowSpan);
    W lanes[kRowLanes] = {};
    int64_t i = begin;
    for (; i + kRowLanes <= end; i += kRowLanes) {
      for (int64_t j = 0; j < kRowLanes; ++j) lanes[j] += term(i + j);
    }
    for (int64_t j = 0; i + j < end; ++j) lanes[j] += term(i + j);
    fold_lanes<kRowLanes / 2>(lanes);
    sum += lanes[0];
  }
  return sum;
}

// The largest of term(0) ... term(n - 1) but those that are no numbers.
template <class W, class Term>
[[gnu::always_inline]] inline W largest_in_lanes(int64_t n, const Term& term) {
  W lanes[kRowLanes];
  std::fill_n(lanes, kRowLanes, -std::numeric_limits<W>::infinity());
  const auto take = [&](int64_t lane, W value) __attribute__((always_inline)) {
    lanes[lane] = value > lanes[lane] ? value : lanes[lane];
  };
  int64_t i = 0;
  for (; i + kRowLanes <= n; i += kRowLanes) {
    for (int64_t j = 0; j < kRowLanes; ++j) take(j, term(i + j));
  }
  for (int64_t j = 0; i + j < n; ++j) take(j, term(i + j));
  for (int64_t j = 1; j < kRowLanes; ++j) take(0, lanes[j]);
  return lanes[0];
}

// Ask for a row that comes soon: its memory is read while others are computed.
template <class T>
[[gnu::always_inline]] inline void ask_for(const T* row, int64_t dim) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < dim; i += kLine) __builtin_prefetch(row + i);
}

}  // namespace zero
