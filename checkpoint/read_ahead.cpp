#include "checkpoint/read_ahead.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace zero::checkpoint {

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
