#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "checkpoint/file.h"

// Parts of a file: what lies between them, hashing and copying them.
namespace zero::checkpoint {

// Bytes [begin, begin + bytes) of a file.
struct Range {
  int64_t begin = 0;
  int64_t bytes = 0;
};

// What has been covered of something that begins at 0, in any order.
class Coverage {
 public:
  // Cover [begin, end); false, and nothing changes, when a part of it was covered before.
  bool add(int64_t begin, int64_t end);
  int64_t first_gap() const;  // where the first part begins that is not covered

 private:
  std::map<int64_t, int64_t> ranges_;  // by begin the end; apart from each other
};

// The parts of [0, file_bytes) that no range covers, in order. The ranges come in any
// order, lie inside the file and do not overlap.
std::vector<Range> gaps_between(std::vector<Range> ranges, int64_t file_bytes);

// Hash these bytes of a file, as one stream, and copy them to the same places of another
// (null: of none). Throws when the file is cut off.
uint64_t copy_ranges(const File& from, const std::vector<Range>& ranges, File* to,
                     Io& io = system_io());

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
