#include "engine/comm/transport.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <vector>

namespace zero {
namespace {

// A NaN on any rank is the result on all.
template <typename T>
T reduce_pair(T a, T b, ReduceOp op) {
  if (op == ReduceOp::kSum) return a + b;
  if constexpr (std::floating_point<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
  }
  return op == ReduceOp::kMax ? std::max(a, b) : std::min(a, b);
}

}  // namespace

template <typename T>
void reduce_values(Transport& transport, const Call& call, std::span<T> values,
                   ReduceOp op) {
  const size_t size = transport.size(), num_values = values.size();
  std::vector<T> of_rank(size * num_values);  // (size, num_values)
  transport.all_gather(call, values.data(), of_rank.data(),
                       static_cast<int64_t>(values.size_bytes()));
  for (size_t step = 1; step < size; step *= 2) {
    for (size_t rank = 0; rank + step < size; rank += 2 * step) {
      T* left = &of_rank[rank * num_values];
      const T* right = left + step * num_values;
      for (size_t i = 0; i < num_values; ++i)
        left[i] = reduce_pair(left[i], right[i], op);
    }
  }
  std::copy_n(of_rank.begin(), num_values, values.begin());
}

template void reduce_values(Transport&, const Call&, std::span<int64_t>, ReduceOp);
template void reduce_values(Transport&, const Call&, std::span<double>, ReduceOp);

}  // namespace zero
