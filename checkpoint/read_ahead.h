#pragma once

#include <cstdint>

#include "checkpoint/ranges.h"

namespace zero::checkpoint {

// Which bytes of a file to ask the system for before they are read (File::ask_for), so
// that the disk works while others are hashed or widened: the next kWindowBytes of a
// request, and behind it, if it begins where the one before ended, or almost. A request
// that stands alone, as a rank's slice does, is no sign that more is wanted; one of a few
// bytes is none of anything.
class ReadAhead {
 public:
  static constexpr int64_t kWindowBytes = int64_t{16} << 20;
  static constexpr int64_t kLeastBytes = int64_t{1} << 20;
  static constexpr int64_t kFewBytes = int64_t{64} << 10;

  // To ask for before a step at `offset` of a request that ends at `end`; often nothing.
  Range before(int64_t offset, int64_t end);

 private:
  int64_t end_ = -1;   // of the request
  int64_t asked_ = 0;  // up to here
  bool follows_ = false;
};

}  // namespace zero::checkpoint
