#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/tensor.h"

namespace zero::checkpoint {

class Folder;

struct FileEntry {
  std::string name;
  int64_t bytes = 0;
  uint64_t hash = 0;  // of all bytes that are in no piece: in checkpoint.h5, all of them
};

// What a checkpoint tells about the run besides its tensors.
struct StepInfo {
  int64_t step = 0;
  std::map<std::string, std::string> aliases = {};  // a tied name -> its FQN
  std::string config = "{}";    // JSON, the caller's: model, data, optimizer settings
  std::string position = "{}";  // JSON, the caller's: place in the data, random state
  std::map<std::string, double> engine = {};  // numbers that a resumed engine needs
};

// What a checkpoint holds: a value, as manifest.json tells it.
struct Manifest : StepInfo {
  int world_size = 1;
  std::vector<FileEntry> files;       // checkpoint.h5, then each rank's shard
  std::vector<StoredTensor> tensors;  // sorted by kind, then name

  // Find a tensor by its name or an alias of it; nullptr: there is none.
  const StoredTensor* find(Kind kind, const std::string& fqn) const;
  const FileEntry* find_file(const std::string& name) const;
};

// A rank's share of a manifest: rank 0 needs everybody's to commit.
struct ShardReport {
  int rank = 0;
  int world_size = 1;
  FileEntry file;                     // the rank's shard
  std::vector<StoredTensor> tensors;  // each with the piece that the shard has, or none
};

struct PlacedPiece {
  const StoredTensor* tensor;
  const Piece* piece;
};

// Each file's pieces, in the order of their bytes.
std::map<std::string, std::vector<PlacedPiece>> pieces_by_file(
    const std::vector<StoredTensor>& tensors);

// Refuse a manifest that promises what cannot be: bad names, pieces that leave gaps,
// overlap or lie outside their file, a wrong number of hashes, an alias of nothing.
// Throws CheckpointError; `file` is named in it.
void check_manifest(const Manifest& manifest, const std::string& file);

// The bytes of manifest.json; they end with their own hash. Read back, the hash, every
// field and check_manifest() are checked.
std::string to_text(const Manifest& manifest);
Manifest parse_manifest(std::string_view text, const std::string& file);

// How many bytes a manifest may have beside the shards of its folder.
int64_t largest_manifest(const Folder& folder);

// Read a checkpoint's manifest.json; throws CheckpointError when it is missing or not to
// be trusted.
Manifest load_manifest(const Folder& folder);

// To bytes and back, so that reports can be gathered by whoever knows how.
std::string to_text(const ShardReport& report);
ShardReport parse_report(std::string_view text);  // throws CheckpointError

}  // namespace zero::checkpoint
