#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/buffer.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/ranges.h"

namespace zero::checkpoint {

// Read ranges of tensors from a complete checkpoint, whatever world size wrote it.
//
// The constructor checks the manifest and the size of every file, so a missing, longer or
// shorter one is known before anything is read. Values are read without HDF5, and only
// after the hash of every chunk touched has been checked; every failure is a
// CheckpointError that names the file and the FQN. Not thread-safe: one reader a thread.
class Reader {
 public:
  explicit Reader(const std::string& folder);

  const Manifest& manifest() const { return manifest_; }

  // Read elements [begin, begin + numel) into `out`, in the type that is stored. An alias
  // reads the parameter that it names. When this throws, `out` may have been written.
  void read(Kind kind, const std::string& fqn, int64_t begin, int64_t numel, void* out);

  // Let the disk fetch what will soon be read. A hint, which takes no memory of ours.
  void ask_for(Kind kind, const std::string& fqn, int64_t begin, int64_t numel);

  // Read a whole tensor, or the caller's own bytes.
  std::vector<char> read_all(Kind kind, const std::string& fqn);

 private:
  struct Window {
    const StoredTensor& tensor;
    int64_t begin, end;  // bytes of the flat tensor that are wanted
    char* out;
  };
  const StoredTensor& find(Kind kind, const std::string& fqn) const;
  const File& open(const std::string& name);
  void read_piece(const Window& window, const Piece& piece);

  Folder folder_;
  Manifest manifest_;
  std::map<std::string, File> files_;  // opened when first needed
  Buffer chunk_;
};

// Where chunk `index` of a piece lies: kChunkBytes, or what is left of the piece.
Range chunk_range(const Piece& piece, size_t index);

// Read a chunk whole into `out` and check its hash; CheckpointError names file and FQN.
void read_chunk(const File& file, const StoredTensor& tensor, const Piece& piece,
                size_t index, void* out);

}  // namespace zero::checkpoint
