#include "engine/comm/transport.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "zero/errors.h"

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

// The variant and the sequence number are told only where nothing else differs.
std::string rank_text(size_t rank, const RankCall& call, bool is_detailed) {
  const std::string text = text_of("rank ", rank, " ", description_of(call));
  if (!is_detailed) return text;
  return text_of(text, " [call ", call.sequence, ", variant ", int{call.variant}, "]");
}

}  // namespace

template <typename T>
void reduce_values(Transport& transport, const RankCall& call, std::span<T> values,
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

template void reduce_values(Transport&, const RankCall&, std::span<int64_t>, ReduceOp);
template void reduce_values(Transport&, const RankCall&, std::span<double>, ReduceOp);

RankCall make_call(uint64_t sequence, Operation operation, int variant, int64_t bytes,
                   const std::string& tag) {
  RankCall call{};
  call.sequence = sequence;
  call.bytes = bytes;
  call.tag_hash = hash_of(tag.data(), tag.size());
  call.operation = operation;
  call.variant = static_cast<uint8_t>(variant);
  tag.copy(call.tag, sizeof(call.tag));
  return call;
}

int64_t bytes_of_shards(std::span<const GatheredArray> arrays) {
  int64_t bytes = 0;
  for (const GatheredArray& array : arrays) bytes += array.shard_bytes;
  return bytes;
}

const char* name_of(Operation operation) {
  static constexpr const char* kNames[] = {"all_gather", "reduce_scatter", "all_reduce",
                                           "broadcast",  "barrier",        "split",
                                           "duplicate"};
  const auto index = static_cast<size_t>(operation);
  return index < std::size(kNames) ? kNames[index] : "unknown operation";
}

std::string description_of(const RankCall& call) {
  const std::string tag(call.tag, strnlen(call.tag, sizeof(call.tag)));
  return text_of(name_of(call.operation), " '", tag, "' (", call.bytes, " bytes)");
}

void require_same_call(std::span<const RankCall> call_of_rank) {
  const RankCall& first = call_of_rank[0];
  for (size_t rank = 1; rank < call_of_rank.size(); ++rank) {
    const RankCall& other = call_of_rank[rank];
    if (std::memcmp(&first, &other, sizeof(RankCall)) == 0) continue;
    const bool is_detailed = description_of(first) == description_of(other);
    throw Error(
        ExitCode::kDiverged,
        "ranks diverged: " + rank_text(0, first, is_detailed) + ", " +
            rank_text(rank, other, is_detailed),
        text_of("call ", first.sequence, " of the communicator"),
        "all ranks must run the same units in the same order; look for a branch that "
        "depends on the rank or on its data");
  }
}

}  // namespace zero
