#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "launcher/data/mapped_file.h"

namespace zero::data {

// Told of each piece of a file that was read, by what reads whole files: a watchdog may
// ask whether this process still moves.
using OnRead = std::function<void(int64_t bytes)>;

// Between two looks whether the file changed.
inline constexpr int64_t kChunkBytes = int64_t{8} << 20;

// Call visit(bytes, offset, num_bytes) for consecutive parts of the file from `begin` to
// its end.
template <typename Visit>
void for_each_chunk(const MappedFile& file, int64_t begin, const OnRead& on_read,
                    Visit visit) {
  for (int64_t offset = begin; offset < file.size_bytes(); offset += kChunkBytes) {
    const auto bytes = file.view(offset);
    const int64_t num_bytes = std::min(kChunkBytes, file.size_bytes() - offset);
    visit(bytes.get(), offset, num_bytes);
    if (on_read) on_read(num_bytes);
  }
}

// XXH3 over name, size and contents, continuing from `seed`. Reads the whole file.
uint64_t hash_file(const MappedFile& file, const std::string& name, uint64_t seed,
                   const OnRead& on_read = {});

}  // namespace zero::data
