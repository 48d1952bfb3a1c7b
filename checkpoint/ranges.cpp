#include "checkpoint/ranges.h"

#include <algorithm>
#include <cassert>

#include "checkpoint/format.h"
#include "checkpoint/hash.h"
#include "checkpoint/work.h"

namespace zero::checkpoint {
namespace {

// Hash the ranges, read in blocks: use(data, bytes, offset).
template <typename Use>
uint64_t hash_blocks(const File& file, const std::vector<Range>& ranges, Use use) {
  Hasher hasher;
  std::vector<char> block;
  for (const auto& range : ranges) {
    for (int64_t at = 0; at < range.bytes; at += kChunkBytes) {
      const auto bytes = static_cast<size_t>(std::min(kChunkBytes, range.bytes - at));
      block.resize(std::max(block.size(), bytes));
      file.read(block.data(), bytes, range.begin + at);
      note_work();
      hasher.add(block.data(), bytes);
      use(block.data(), bytes, range.begin + at);
    }
  }
  return hasher.digest();
}

}  // namespace

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

uint64_t hash_ranges(const File& file, const std::vector<Range>& ranges) {
  return hash_blocks(file, ranges, [](const char*, size_t, int64_t) {});
}

uint64_t copy_ranges(const File& from, const std::vector<Range>& ranges, File& to,
                     Io& io) {
  return hash_blocks(from, ranges, [&](const char* data, size_t bytes, int64_t offset) {
    to.write(data, bytes, offset, io);
  });
}

}  // namespace zero::checkpoint
