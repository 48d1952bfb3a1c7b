#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"
#include "checkpoint/safetensors_folder.h"

namespace zero::checkpoint {

// The tensors of a folder, whichever way they lie there: a checkpoint, whatever its world
// size, or safetensors.
//
// The constructor throws as Reader's and SafetensorsFolder's do. Not thread-safe: one a
// thread.
class TensorFolder {
 public:
  explicit TensorFolder(const std::string& folder);

  bool is_checkpoint() const { return reader_.has_value(); }
  const std::string& path() const { return path_; }

  // Of safetensors: their tensors, which are all parameters, without pieces; all else as
  // in an empty one.
  const Manifest& manifest() const { return reader_ ? reader_->manifest() : listed_; }

  // The files that hold the values, each with its path.
  std::vector<std::string> files() const;

  // Read elements [begin, begin + numel) in the type that is stored; of a checkpoint
  // after their hashes were checked. When this throws, `out` may have been written.
  void read(const StoredTensor& tensor, int64_t begin, int64_t numel, void* out);

 private:
  std::string path_;
  std::optional<Reader> reader_;
  std::optional<SafetensorsFolder> safetensors_;
  Manifest listed_;
};

}  // namespace zero::checkpoint
