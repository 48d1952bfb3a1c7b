#pragma once
#include <cstdint>
#include <vector>

namespace zero {

enum class Pin;
struct MemoryPlan;
struct UnitPlan;

// Bytes [begin, end) of this rank's shards in the host's memory, which lie one behind the
// other from the start of a page on, in the order of MemoryPlan::shard_arrays.
struct ByteRange {
  int64_t begin = 0, end = 0;

  bool operator==(const ByteRange&) const = default;
};

// What of them is pinned: ascending whole pages of `page_bytes`, of which no two ranges
// share one; the last page may end with the shards.
std::vector<ByteRange> pinned_ranges(const UnitPlan& plan, const MemoryPlan& memory,
                                     Pin pin, int64_t page_bytes);

}  // namespace zero
