#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "checkpoint/buffer.h"
#include "checkpoint/disk_roads.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/ranges.h"
#include "checkpoint/tensor.h"

namespace zero::checkpoint {

// So many chunks, one behind the other, are read at once.
constexpr size_t kChunksAtOnce = 2;

// Where chunks [first, last) of a piece lie: kChunkBytes each, or what is left of it.
Range chunk_range(const Piece& piece, size_t first, size_t last);

// Who wants the bytes of a chunk, on this host.
enum class Audience { kOne, kMany };

// Read chunks of a checkpoint's files, and check their hashes. Holds the last file open
// and kChunksAtOnce in memory. Not thread-safe: one a thread.
class ChunkReader {
 public:
  explicit ChunkReader(const Folder& folder)
      : folder_(folder), chunks_(kChunksAtOnce * kChunkBytes) {}

  // A file of the folder, until the next one is opened.
  File& open(const std::string& name);

  // The bytes of chunks [first, last) once they have proved sound: at `place`, where it
  // is given and a good one, else in memory of this object until the next call. What the
  // system has in its cache comes from there. The rest of what one wants alone takes the
  // faster road; what others want as well goes through the cache, so that the disk gives
  // it once. CheckpointError names file and FQN; `place` may have been written.
  const char* read(const StoredTensor& tensor, const Piece& piece, size_t first,
                   size_t last, char* place, Audience audience);

 private:
  // Bytes that the system has in its cache, and their hash.
  uint64_t copy_and_hash(char* out, const Range& range);
  // By no road where the system shall keep what it fetches.
  void fetch(char* out, const Range& range, std::optional<Road> road);
  void check(const StoredTensor& tensor, const Piece& piece, size_t index,
             uint64_t hash) const;

  const Folder& folder_;
  std::string name_;  // of the file
  std::optional<File> file_;
  DiskRoads* roads_ = nullptr;
  Buffer chunks_;
};

}  // namespace zero::checkpoint
