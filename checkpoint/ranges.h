#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/file.h"

// Parts of a file: what lies between them, hashing and copying them.
namespace zero::checkpoint {

// Bytes [begin, begin + bytes) of a file.
struct Range {
  int64_t begin = 0;
  int64_t bytes = 0;
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
