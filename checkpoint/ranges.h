#pragma once

#include <cstdint>
#include <vector>

namespace zero::checkpoint {

// Bytes [begin, begin + bytes) of a file.
struct Range {
  int64_t begin = 0;
  int64_t bytes = 0;
};

// The parts of [0, file_bytes) that no range covers, in order. The ranges come in any
// order, lie inside the file and do not overlap.
std::vector<Range> gaps_between(std::vector<Range> ranges, int64_t file_bytes);

}  // namespace zero::checkpoint
