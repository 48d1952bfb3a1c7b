#include "engine/plan/pinned_ranges.h"

#include <algorithm>

#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero {
namespace {

// Is it what copies touch of this part? Gradients, and weights in compute precision: the
// 16-bit copy, or else the masters.
bool is_copied(const ShardArray& array, const PlannedPart& part) {
  return array.role == ShardRole::kCopy || array.role == ShardRole::kGradient ||
         (array.role == ShardRole::kMaster && part.dtype == DType::kFp32);
}

// Pages are pinned as a whole, and each once.
void add_pages(std::vector<ByteRange>& ranges, ByteRange bytes, int64_t page_bytes) {
  if (bytes.begin == bytes.end) return;
  bytes.begin = bytes.begin / page_bytes * page_bytes;
  bytes.end = round_up(bytes.end, page_bytes);
  if (!ranges.empty() && bytes.begin <= ranges.back().end)
    ranges.back().end = bytes.end;
  else
    ranges.push_back(bytes);
}

}  // namespace

std::vector<ByteRange> pinned_ranges(const UnitPlan& plan, const MemoryPlan& memory,
                                     Pin pin, int64_t page_bytes) {
  std::vector<ByteRange> ranges;
  int64_t end = 0;
  for (const ShardArray& array : memory.shard_arrays) {
    if (array.on_gpu || array.is_shared) continue;
    for (size_t i = 0; i < array.parts.size(); ++i) {
      const int64_t begin = end;
      end += array.bytes(i);
      if (pin == Pin::kAll || is_copied(array, plan.parts[array.parts[i]]))
        add_pages(ranges, {begin, end}, page_bytes);
    }
  }
  if (!ranges.empty()) ranges.back().end = std::min(ranges.back().end, end);
  return ranges;
}

}  // namespace zero
