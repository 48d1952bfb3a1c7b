#include "checkpoint/copy.h"

#include <algorithm>

#include "checkpoint/format.h"
#include "checkpoint/hash.h"
#include "checkpoint/work.h"

namespace zero::checkpoint {
namespace {

// Read the ranges in blocks: use(data, bytes, offset).
template <typename Use>
void for_each_block(const File& file, const std::vector<Range>& ranges, Use use) {
  std::vector<char> block;
  for (const auto& range : ranges) {
    for (int64_t at = 0; at < range.bytes; at += kChunkBytes) {
      const auto bytes = static_cast<size_t>(std::min(kChunkBytes, range.bytes - at));
      block.resize(std::max(block.size(), bytes));
      file.read(block.data(), bytes, range.begin + at);
      note_work();
      use(block.data(), bytes, range.begin + at);
    }
  }
}

}  // namespace

uint64_t hash_ranges(const File& file, const std::vector<Range>& ranges) {
  Hasher hasher;
  for_each_block(file, ranges, [&](const char* data, size_t bytes, int64_t) {
    hasher.add(data, bytes);
  });
  return hasher.digest();
}

uint64_t copy_ranges(const File& from, const std::vector<Range>& ranges, File& to,
                     Io& io) {
  Hasher hasher;
  for_each_block(from, ranges, [&](const char* data, size_t bytes, int64_t offset) {
    hasher.add(data, bytes);
    to.write(data, bytes, offset, io);
  });
  return hasher.digest();
}

}  // namespace zero::checkpoint
