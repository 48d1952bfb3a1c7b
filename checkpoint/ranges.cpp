#include "checkpoint/ranges.h"

#include <algorithm>
#include <cassert>

namespace zero::checkpoint {

std::vector<Range> gaps_between(std::vector<Range> ranges, int64_t file_bytes) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  ranges.push_back({file_bytes, 0});
  std::vector<Range> gaps;
  int64_t end = 0;
  for (const auto& range : ranges) {
    assert(range.begin >= end);  // an overlap would leave bytes without a hash
    if (range.begin > end) gaps.push_back({end, range.begin - end});
    end = range.begin + range.bytes;
  }
  return gaps;
}

}  // namespace zero::checkpoint
