#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format.h"
#include "checkpoint/shape.h"

namespace zero::checkpoint {

// Where consecutive elements of a tensor lie.
struct Piece {
  std::string file;
  int64_t begin = 0;             // first element, in the flat tensor
  int64_t offset = 0;            // of the first byte, in the file
  int64_t bytes = 0;             // never 0
  std::vector<uint64_t> hashes;  // XXH3 of each kChunkBytes, the last may be shorter
};

struct TensorEntry {
  Kind kind = Kind::kParam;
  std::string fqn;
  DType dtype = DType::kFp32;
  Shape shape;
  std::vector<Piece> pieces;  // in order; together they are the whole tensor

  int64_t numel() const { return checked_numel(shape).value(); }
};

struct FileEntry {
  std::string name;
  int64_t bytes = 0;
  uint64_t hash = 0;  // of all bytes that are in no piece: in checkpoint.h5, all of them
};

// What a checkpoint holds: a value, as manifest.json tells it.
struct Manifest {
  int64_t step = 0;
  int world_size = 1;
  std::vector<FileEntry> files;                // checkpoint.h5, then each rank's shard
  std::vector<TensorEntry> tensors;            // sorted by kind, then name
  std::map<std::string, std::string> aliases;  // other names of tied parameters -> FQN
  std::string config = "{}";                   // JSON, the caller's: what was run
  std::string position = "{}";                 // JSON, the caller's: where it stands

  // Find a tensor by its name or an alias of it; nullptr: there is none.
  const TensorEntry* find(Kind kind, const std::string& fqn) const;
  const FileEntry* find_file(const std::string& name) const;
};

// Refuse a manifest that promises what cannot be: bad names, pieces that leave gaps,
// overlap or lie outside their file, a wrong number of hashes, an alias of nothing.
// Throws CheckpointError; `file` is named in it.
void check_manifest(const Manifest& manifest, const std::string& file);

// The bytes of manifest.json; they end with their own hash.
std::string to_text(const Manifest& manifest);

// Read them back, checking the hash, every field and check_manifest().
Manifest parse_manifest(std::string_view text, const std::string& file);

}  // namespace zero::checkpoint
