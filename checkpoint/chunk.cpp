#include "checkpoint/chunk.h"

#include <algorithm>

#include "checkpoint/error.h"
#include "checkpoint/hash.h"
#include "checkpoint/work.h"

namespace zero::checkpoint {

Range chunk_range(const Piece& piece, size_t index) {
  const int64_t begin = static_cast<int64_t>(index) * kChunkBytes;
  return {piece.offset + begin, std::min(kChunkBytes, piece.bytes - begin)};
}

void read_chunk(const File& file, const TensorEntry& tensor, const Piece& piece,
                size_t index, void* out) {
  const Range range = chunk_range(piece, index);
  const auto bytes = static_cast<size_t>(range.bytes);
  try {
    file.read(out, bytes, range.begin);
    note_work();
  } catch (const CheckpointError& error) {
    throw CheckpointError(error.file(), tensor.fqn, error.problem(), error.cure());
  }
  if (hash_of(out, bytes) == piece.hashes.at(index)) return;
  throw CheckpointError(file.path(), tensor.fqn,
                        std::string(name_of(tensor.kind)) + " is damaged: bytes " +
                            std::to_string(range.begin) + " to " +
                            std::to_string(range.begin + range.bytes - 1) +
                            " do not have the hash that was recorded",
                        "use another checkpoint");
}

}  // namespace zero::checkpoint
