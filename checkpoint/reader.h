#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "checkpoint/chunk_reader.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

// Elements [begin, begin + numel) of a tensor, as they are stored, and where they go: to
// `out`; or, where values lie in memory otherwise than in the file, to whom `store` gives
// them, in parts: elements [first, first + count) of these, from several threads at once.
struct Wanted {
  Kind kind = Kind::kParam;
  std::string fqn;
  int64_t begin = 0;
  int64_t numel = 0;
  void* out = nullptr;
  std::function<void(int64_t first, int64_t count, const void* from)> store = {};
};

// Read ranges of tensors from a complete checkpoint, whatever world size wrote it.
//
// The constructor checks the manifest and the size of every file, so a missing, longer or
// shorter one is known before anything is read. Values are read without HDF5, and only
// after the hash of every chunk touched has been checked; every failure is a
// CheckpointError that names the file and the FQN. What is large is read by several
// threads; of their failures the first in the file's order is thrown. An alias reads the
// parameter that it names. Not thread-safe: one reader a thread.
class Reader : NoCopy {
 public:
  explicit Reader(const std::string& folder);

  const Manifest& manifest() const { return manifest_; }

  // Read elements [begin, begin + numel) into `out`, in the type that is stored. When
  // this throws, `out` may have been written.
  void read(Kind kind, const std::string& fqn, int64_t begin, int64_t numel, void* out);

  // The same of many ranges, in their order, which no other process of this host reads:
  // what lies in chunks that are wanted whole may pass the system's cache.
  void read_alone(const std::vector<Wanted>& all);

  // Let the disk fetch what will soon be read. A hint, which takes no memory of ours.
  void ask_for(Kind kind, const std::string& fqn, int64_t begin, int64_t numel);

  // Read a whole tensor, or the caller's own bytes.
  std::vector<char> read_all(Kind kind, const std::string& fqn);

 private:
  // What is wanted, and by whom: whole chunks, or some of one.
  struct Part {
    const Wanted* wanted;
    const StoredTensor* tensor;
    const Piece* piece;
    size_t first, last;  // chunks [first, last)
    int64_t begin, end;  // elements of the flat tensor
    bool is_whole;       // all of these chunks
  };
  const StoredTensor& find(Kind kind, const std::string& fqn) const;
  // More are read by several threads.
  static constexpr int64_t kFewParts = 4;
  void add_parts(const Wanted& wanted, std::vector<Part>& parts) const;
  static void add_parts(const Wanted& wanted, const StoredTensor& tensor,
                        const Piece& piece, std::vector<Part>& parts);
  static void read_part(const Part& part, ChunkReader& chunks, Audience audience);
  void read_parts(const std::vector<Part>& parts, Audience audience);

  const Folder folder_;
  const Manifest manifest_;
  ChunkReader chunks_;  // what this thread reads by
};

}  // namespace zero::checkpoint
