#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/buffer.h"
#include "checkpoint/file.h"
#include "checkpoint/ranges.h"
#include "checkpoint/safetensors.h"

namespace zero::checkpoint {

// A tensor that is going to be written; what write() takes: F64, F32, F16 or BF16.
struct SafeTensorSpec {
  std::string name;
  DType dtype = DType::kFp32;
  Shape shape;
};

// Write a model's weights as Hugging Face does: model.safetensors; or, when they have
// more than `max_file_bytes`, model-00001-of-0000N.safetensors and so on with an index.
// The bytes are those that the reference writer makes of the same tensors.
//
// The constructor makes the files, write() takes values in any order, finish() makes them
// durable. Until then the files count no header, and nobody takes them for whole. After a
// failure, which is a CheckpointError, they are of no use: remove them and begin anew.
// One thread at a time.
class SafetensorsWriter {
 public:
  // `folder` exists and holds no safetensors. Tensors are dealt to files as they come.
  // `only_file` is the name of a file that holds them all.
  SafetensorsWriter(const std::string& folder, const std::vector<SafeTensorSpec>& tensors,
                    int64_t max_file_bytes, Io& io = system_io(),
                    const std::string& only_file = kSafetensorsFile);

  // Write elements [begin, begin + values.size()) of the flat tensor, rounded to nearest
  // even; NaN stays NaN. Each element is written once.
  void write(const std::string& name, int64_t begin, std::span<const float> values);

  // Write a whole tensor of any type, as it is stored.
  void write_stored(const std::string& name, const void* values);

  // After every element of every tensor.
  void finish();

  const std::vector<std::string>& files() const { return names_; }

  // How many files it would have open at a time.
  static int64_t num_files(const std::vector<SafeTensorSpec>& tensors,
                           int64_t max_file_bytes);

 private:
  void create_file(const std::string& name, SafeTensors tensors);
  const SafeTensor& take(const std::string& name, int64_t begin, int64_t numel);
  void write_values(const SafeTensor& tensor, int64_t begin,
                    std::span<const float> values);
  void write_index();

  Folder folder_;
  Io& io_;
  std::vector<std::string> names_;  // of the files
  std::vector<File> files_;
  std::vector<std::string> prefixes_;  // of the files, zeros there until finish()
  SafeTensors tensors_;
  std::map<std::string, Coverage> written_;
  Buffer bounce_;
  int64_t unsynced_bytes_ = 0;
};

// Deal tensors of so many bytes to files, in order: a new file where the next tensor
// would pass the limit; one that is larger than the limit has a file of its own. Gives
// the tensors of each file. As huggingface_hub, split_state_dict_into_shards_factory.
std::vector<std::vector<size_t>> deal_to_files(const std::vector<int64_t>& tensor_bytes,
                                               int64_t max_file_bytes);

}  // namespace zero::checkpoint
