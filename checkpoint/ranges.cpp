#include "checkpoint/ranges.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "checkpoint/buffer.h"
#include "checkpoint/format.h"
#include "checkpoint/io.h"

namespace zero::checkpoint {

bool Coverage::add(int64_t begin, int64_t end) {
  if (begin == end) return true;
  const auto next = ranges_.upper_bound(begin);
  const auto previous = next == ranges_.begin() ? ranges_.end() : std::prev(next);
  if (next != ranges_.end() && next->first < end) return false;
  if (previous != ranges_.end() && previous->second > begin) return false;
  const bool joins_next = next != ranges_.end() && next->first == end;
  if (joins_next) end = next->second;
  if (previous != ranges_.end() && previous->second == begin) {
    previous->second = end;
  } else {
    ranges_.emplace(begin, end);
  }
  if (joins_next) ranges_.erase(next);
  return true;
}

int64_t Coverage::first_gap() const {
  return ranges_.empty() || ranges_.begin()->first > 0 ? 0 : ranges_.begin()->second;
}

std::vector<Range> gaps_between(std::vector<Range> ranges, int64_t file_bytes) {
  std::ranges::sort(ranges, {}, &Range::begin);
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

uint64_t copy_ranges(const File& from, const std::vector<Range>& ranges, File* to,
                     Io& io) {
  Hasher hasher;
  const Buffer block(kChunkBytes);
  for (const auto& range : ranges) {
    for (int64_t at = 0; at < range.bytes; at += kChunkBytes) {
      const auto bytes = static_cast<size_t>(std::min(kChunkBytes, range.bytes - at));
      from.read(block.data(), bytes, range.begin + at);
      note_work(static_cast<int64_t>(bytes));
      hasher.add(block.data(), bytes);
      if (to != nullptr) to->write(block.data(), bytes, range.begin + at, io);
    }
  }
  return hasher.digest();
}

Range ReadAhead::before(int64_t offset, int64_t end) {
  if (end != end_) {
    if (end - offset <= kFewBytes) return {};
    follows_ = end_ >= 0 && offset >= end_ && offset - end_ <= kLeastBytes;
    asked_ = follows_ ? std::max(asked_, offset) : offset;
    end_ = end;
  }
  const int64_t limit = follows_ ? std::numeric_limits<int64_t>::max() : end;
  const int64_t until = std::min(offset + kWindowBytes, limit);
  const int64_t bytes = until - asked_;
  if (bytes < std::min(kLeastBytes, limit - asked_)) return {};
  const int64_t begin = std::exchange(asked_, until);
  return {begin, bytes};
}

}  // namespace zero::checkpoint
