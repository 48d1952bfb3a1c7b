#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/buffer.h"
#include "checkpoint/file.h"
#include "checkpoint/ranges.h"
#include "checkpoint/safetensors.h"

namespace zero::checkpoint {

// A model's weights as Hugging Face writes them: model.safetensors, or several files and
// model.safetensors.index.json. Where both are there the single file counts, as it does
// for transformers.
//
// The constructor reads the headers of all files and holds them against the index, so
// that a missing file or tensor is known before any value is read. The files may come
// from anywhere: names of the index lead to no other folder, links are refused, every
// failure is a CheckpointError. Not thread-safe: one a thread; any number may read the
// same files.
class SafetensorsFolder {
 public:
  // `file` names one file of it that is read alone. Of tensors that do not count nothing
  // is said, and files with nothing else may be missing.
  explicit SafetensorsFolder(
      const std::string& folder, const std::string& file = "",
      std::function<bool(const std::string& name)> counts = [](const std::string&) {
        return true;
      });

  const SafeTensors& tensors() const { return tensors_; }
  const std::vector<std::string>& files() const {
    return files_;
  }  // see SafeTensor::file
  const std::string& path() const { return folder_.path(); }

  // Read elements [begin, begin + out.size()) of the flat tensor, as fp32.
  //
  // F32, BF16 and F16 are exact, F64 is rounded to nearest; integers are refused. Reads
  // these elements' bytes alone, in pieces that fit the processor's cache. When this
  // throws, `out` may have been written.
  void read(const std::string& name, int64_t begin, std::span<float> out);

  // Read elements [begin, begin + numel) as they are stored, of any type.
  void read_stored(const std::string& name, int64_t begin, int64_t numel, void* out);

 private:
  void read_headers(const std::string& only_file);
  SafeTensors read_header(size_t file);
  void read_index();
  void require_files() const;
  // Throws where the tensor is not there, or shorter.
  const SafeTensor& find(const std::string& name, int64_t begin, int64_t numel) const;
  void read_values(const SafeTensor& tensor, int64_t begin, std::span<float> out);
  const File& open(size_t file);

  Folder folder_;
  std::function<bool(const std::string&)> counts_;
  std::vector<std::string> files_;
  SafeTensors tensors_;
  std::optional<File> file_;  // one at a time: a model may have more than a process may
  size_t open_file_ = 0;      // hold open
  ReadAhead ahead_;           // of that file
  Buffer bounce_;
};

}  // namespace zero::checkpoint
