#include "checkpoint/tensor_folder.h"

#include "checkpoint/file.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

bool calls_itself_checkpoint(const std::string& path) {
  return step_of(split_path(path).name) || Folder(path).has(kManifestFile);
}

// Sorted by name, as a manifest's are.
std::vector<StoredTensor> listed(const SafeTensors& tensors) {
  std::vector<StoredTensor> list;
  list.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors)
    list.push_back({Kind::kParam, name, tensor.dtype, tensor.shape});
  return list;
}

}  // namespace

TensorFolder::TensorFolder(const std::string& folder) : path_(folder) {
  if (calls_itself_checkpoint(folder)) {
    reader_.emplace(folder);
  } else {
    safetensors_.emplace(folder);
    listed_.tensors = listed(safetensors_->tensors());
  }
}

std::vector<std::string> TensorFolder::files() const {
  std::vector<std::string> files;
  if (safetensors_) {
    for (const auto& name : safetensors_->files()) files.push_back(path_ + "/" + name);
  }
  for (const auto& file : manifest().files) files.push_back(path_ + "/" + file.name);
  return files;
}

void TensorFolder::read(const StoredTensor& tensor, int64_t begin, int64_t numel,
                        void* out) {
  if (reader_)
    reader_->read(tensor.kind, tensor.fqn, begin, numel, out);
  else
    safetensors_->read_stored(tensor.fqn, begin, numel, out);
}

}  // namespace zero::checkpoint
