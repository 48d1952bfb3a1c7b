#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/layers/elements.h"
#include "engine/layers/rows.h"

namespace zero {

// What a row of logits keeps beside them, in numbers.
inline constexpr int64_t kNumbersOfRow = 2;  // the largest logit, 1 / sum of exponentials

// cross_entropy() of rows of logits that lie end to end. A target of -1 is none.
template <class T>
struct CrossEntropyPass {
  const T* logits;         // (rows, classes)
  const int64_t* targets;  // (rows)
  double* losses;          // (rows)
  Wide<T>* kept;           // (rows, kNumbersOfRow), or null
  int64_t classes;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      losses[row] = 0;
      if (targets[row] >= 0) take(row);
    }
  }

 private:
  [[gnu::always_inline]] void take(int64_t row) const {
    const T* __restrict in = logits + row * classes;
    const auto value = [=](int64_t i) __attribute__((always_inline)) {
      return wide(in[i]);
    };
    // Of two zeros it may be either, unless one is added.
    const Wide<T> largest = largest_in_lanes<Wide<T>>(classes, value) + 0;
    const auto term = [=](int64_t i) __attribute__((always_inline)) {
      return softmax_term(in[i], largest);
    };
    const Wide<T> sum = sum_in_lanes<Wide<T>>(classes, term);
    losses[row] = row_loss(sum, largest, wide(in[targets[row]]));
    if (!kept) return;
    kept[row * kNumbersOfRow] = largest;
    kept[row * kNumbersOfRow + 1] = 1 / sum;
  }
};

// What rows' losses lie in while they are added: every 256th in the same lane.
inline constexpr int64_t kLossLanes = 256;

// The sum of all losses, which it may write over: one item. Its order depends on their
// number alone.
struct SumLossesPass {
  double* losses;  // (rows)
  double* sum;
  int64_t rows;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    if (begin == end) return;
    double lanes[kLossLanes] = {};
    for (int64_t i = 0; i < rows; ++i) lanes[i % kLossLanes] += losses[i];
    fold_lanes<kLossLanes / 2>(lanes);
    *sum = lanes[0];
  }
};

// Its gradient times `factor`, in the place of the logits.
template <class T>
struct CrossEntropyBackwardPass {
  T* logits;               // (rows, classes)
  const int64_t* targets;  // (rows)
  const Wide<T>* kept;     // (rows, kNumbersOfRow)
  const Wide<T>* factor;   // where it lies
  int64_t classes;

  [[gnu::always_inline]] void run(int64_t begin, int64_t end) const {
    for (int64_t row = begin; row < end; ++row) {
      if (targets[row] >= 0)
        turn(row);
      else
        std::fill_n(logits + row * classes, classes, T{});
    }
  }

 private:
  [[gnu::always_inline]] void turn(int64_t row) const {
    T* const values = logits + row * classes;
    const Wide<T> largest = kept[row * kNumbersOfRow], times = *factor;
    const Wide<T> scale = kept[row * kNumbersOfRow + 1] * times;
    T of_target;
    cross_entropy_gradient(values[targets[row]], largest, scale, times, of_target);
    for (int64_t i = 0; i < classes; ++i)
      cross_entropy_gradient(values[i], largest, scale, Wide<T>{0}, values[i]);
    values[targets[row]] = of_target;
  }
};

}  // namespace zero
