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

// Hash these bytes of a file, as one stream. Throws when the file is cut off.
uint64_t hash_ranges(const File& file, const std::vector<Range>& ranges);

// The same, copying them to the same places of another file.
uint64_t copy_ranges(const File& from, const std::vector<Range>& ranges, File& to,
                     Io& io);

}  // namespace zero::checkpoint
