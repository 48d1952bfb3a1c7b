#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/dtype.h"

// What values are like, and how far they are from others. All arithmetic is in fp64; the
// order of sums depends on nothing but the values' places.
namespace zero::launcher {

// Of a tensor, whose values come in pieces. What is not finite is counted, and in nothing
// else.
struct Summary {
  int64_t num_finite = 0, num_nan = 0, num_inf = 0;
  double sum = 0, sum_of_squares = 0;
  double min = std::numeric_limits<double>::infinity(), max = -min;  // of finite ones

  // `n` values as they lie in a file.
  void add(DType dtype, const char* values, int64_t n);

  double norm() const;     // L2
  double mean() const;     // of finite ones; NaN: there are none
  double largest() const;  // magnitude
};

// Of two tensors of the same shape.
struct Distance {
  Summary first;              // what differences are relative to
  int64_t num_values = 0;     // in each
  int64_t num_different = 0;  // not the same bits; of two types, not the same number
  // Of them, pairs of which one is not finite: no difference is worked out.
  int64_t num_not_finite = 0;
  double largest = 0, sum_of_squares = 0;  // of the differences

  void add(DType dtype_a, const char* a, DType dtype_b, const char* b, int64_t n);

  // largest / first.largest(), and the same of L2 norms; 0 where nothing differs,
  // infinite beside nothing but zeros.
  double relative() const;
  double relative_norm() const;
};

// What is read of a tensor at once: whole chunks, so that few are read and hashed twice.
constexpr int64_t kPieceBytes = int64_t{8} << 20;

// Cut a tensor of any size: use(begin, numel), in elements. Where a second one, of
// another type, is read beside it, `wider` is the larger of both elements' sizes.
template <class Use>
void for_each_piece(int64_t numel, int64_t wider, Use use) {
  const int64_t most = kPieceBytes / wider;
  for (int64_t begin = 0; begin < numel; begin += most)
    use(begin, std::min(most, numel - begin));
}

}  // namespace zero::launcher
