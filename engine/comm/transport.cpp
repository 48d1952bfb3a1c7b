#include "engine/comm/transport.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <vector>

#include "engine/comm/tree_sum.h"

namespace zero {
namespace {

class SelfTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }

  void all_gather(const Call&, const void* shard, void* full,
                  int64_t shard_bytes) override {
    if (shard != full && shard_bytes > 0) std::memcpy(full, shard, shard_bytes);
  }
  void reduce_scatter(const Call&, const void* full, float* shard, int64_t shard_numel,
                      DType type) override {
    tree_sum({&full, 1}, type, shard, shard_numel);
  }
  void broadcast(const Call&, void*, int64_t, int) override {}
  void barrier(const Call&) override {}
  std::unique_ptr<Transport> split(const Call&, int) override {
    return std::make_unique<SelfTransport>();
  }
  void leave(const std::string&) noexcept override {}
};

// A NaN on any rank is the result on all.
template <typename T>
T reduce_pair(T a, T b, ReduceOp op) {
  if (op == ReduceOp::kSum) return a + b;
  if constexpr (std::floating_point<T>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
  }
  return op == ReduceOp::kMax ? std::max(a, b) : std::min(a, b);
}

template <typename T>
void reduce_all(Transport& transport, const Call& call, std::span<T> values,
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

}  // namespace

std::unique_ptr<Transport> make_self_transport() {
  return std::make_unique<SelfTransport>();
}

void reduce_values(Transport& transport, const Call& call, std::span<int64_t> values,
                   ReduceOp op) {
  reduce_all(transport, call, values, op);
}
void reduce_values(Transport& transport, const Call& call, std::span<double> values,
                   ReduceOp op) {
  reduce_all(transport, call, values, op);
}

}  // namespace zero
