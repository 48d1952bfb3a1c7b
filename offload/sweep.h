#pragma once

#include <cstdint>

namespace zero {

class ThreadPool;
struct UpdatePiece;

// Read and write all that an AdamW update of a piece with fp32 gradients reads and
// writes, in the same chunks, and calculate nothing: what no update can be faster than.
// Values stay as they are; the copy becomes the upper halves of the masters.
void sweep(const UpdatePiece& piece, ThreadPool& pool);

// What goes through memory: 28 bytes an element, 30 with a copy.
int64_t swept_bytes(const UpdatePiece& piece);

}  // namespace zero
