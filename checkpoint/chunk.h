#pragma once

#include <cstddef>

#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/ranges.h"

namespace zero::checkpoint {

// Where chunk `index` of a piece lies: kChunkBytes, or what is left of the piece.
Range chunk_range(const Piece& piece, size_t index);

// Read a chunk whole into `out` and check its hash; CheckpointError names file and FQN.
void read_chunk(const File& file, const TensorEntry& tensor, const Piece& piece,
                size_t index, void* out);

}  // namespace zero::checkpoint
