#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/ranges.h"

namespace zero::checkpoint {

// Hash these bytes of a file, as one stream. Throws when the file is cut off.
uint64_t hash_ranges(const File& file, const std::vector<Range>& ranges);

// The same, copying them to the same places of another file.
uint64_t copy_ranges(const File& from, const std::vector<Range>& ranges, File& to,
                     Io& io);

}  // namespace zero::checkpoint
