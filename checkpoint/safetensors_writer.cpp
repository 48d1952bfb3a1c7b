#include "checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/dtype.h"
#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/io.h"

namespace zero::checkpoint {
namespace {

constexpr int64_t kWriteBytes = int64_t{1} << 20;

std::string file_name(size_t index, size_t num_files) {
  char name[64];
  std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", index + 1,
                num_files);
  return name;
}

// Readers would take what lies there for a part of the model, or for the model.
void require_no_other_model(const Folder& folder) {
  for (const auto& name : folder.names()) {
    if (!name.ends_with(".safetensors") && name != kSafetensorsIndexFile) continue;
    throw CheckpointError(folder.path_of(name), "", "is there already",
                          "choose an empty folder, or remove it");
  }
}

SafeTensors checked(const std::vector<SafeTensorSpec>& specs, const std::string& folder) {
  SafeTensors tensors;
  for (const SafeTensorSpec& spec : specs) {
    const auto fail = [&](const std::string& problem) {
      throw CheckpointError(folder, spec.name, problem);
    };
    check_name(spec.name, folder);
    if (spec.name == "__metadata__") fail("is no name for a tensor: the format uses it");
    if (!checked_numel(spec.shape))
      fail("the shape " + to_string(spec.shape) + " is not possible");
    if (!tensors.emplace(spec.name, SafeTensor{spec.dtype, spec.shape}).second)
      fail("is given twice; write a tied tensor once");
  }
  return tensors;
}

std::vector<int64_t> bytes_of(const std::vector<SafeTensorSpec>& specs) {
  std::vector<int64_t> bytes;
  for (const auto& spec : specs)
    bytes.push_back(SafeTensor{spec.dtype, spec.shape}.num_bytes());
  return bytes;
}

}  // namespace

std::vector<std::vector<size_t>> deal_to_files(const std::vector<int64_t>& tensor_bytes,
                                               int64_t max_file_bytes) {
  std::vector<std::vector<size_t>> files;
  std::vector<size_t> current;
  int64_t current_bytes = 0;
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    if (tensor_bytes[i] > max_file_bytes) {
      files.push_back({i});  // what follows still goes to the current one
      continue;
    }
    if (current_bytes > max_file_bytes - tensor_bytes[i]) {
      files.push_back(std::move(current));
      current.clear();
      current_bytes = 0;
    }
    current.push_back(i);
    current_bytes += tensor_bytes[i];
  }
  if (!current.empty() || files.empty()) files.push_back(std::move(current));
  return files;
}

int64_t SafetensorsWriter::num_files(const std::vector<SafeTensorSpec>& tensors,
                                     int64_t max_file_bytes) {
  return std::ssize(deal_to_files(bytes_of(tensors), max_file_bytes));
}

SafetensorsWriter::SafetensorsWriter(const std::string& folder,
                                     const std::vector<SafeTensorSpec>& tensors,
                                     int64_t max_file_bytes, Io& io,
                                     const std::string& only_file)
    : folder_(folder),
      io_(io),
      tensors_(checked(tensors, folder)),
      bounce_(static_cast<size_t>(kWriteBytes)) {
  require_no_other_model(folder_);
  const auto dealt = deal_to_files(bytes_of(tensors), max_file_bytes);
  for (size_t i = 0; i < dealt.size(); ++i) {
    SafeTensors of_file;
    for (const size_t tensor : dealt[i]) {
      const std::string& name = tensors[tensor].name;
      of_file.emplace(name, tensors_.at(name)).first->second.file = i;
    }
    create_file(dealt.size() == 1 ? only_file : file_name(i, dealt.size()),
                std::move(of_file));
  }
}

// All of the header but its length, without which nobody reads it.
void SafetensorsWriter::create_file(const std::string& name, SafeTensors tensors) {
  const std::string path = folder_.path_of(name);
  const std::string header = lay_out_safetensors(tensors, path);
  int64_t bytes = static_cast<int64_t>(header.size());
  for (const auto& [fqn, tensor] : tensors) {
    bytes += tensor.num_bytes();
    tensors_.at(fqn) = tensor;
  }
  names_.push_back(name);
  prefixes_.push_back(header.substr(0, kPrefixBytes));
  File& file = files_.emplace_back(folder_.create(name, io_));
  file.announce_size(bytes);
  file.write(header.data() + kPrefixBytes, header.size() - kPrefixBytes, kPrefixBytes,
             io_);
}

// Elements that are written now, and were not yet.
const SafeTensor& SafetensorsWriter::take(const std::string& name, int64_t begin,
                                          int64_t numel) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw CheckpointError(folder_.path(), name, "is not among the tensors to write");
  const SafeTensor& tensor = found->second;
  require_part(folder_.path(), name, tensor.numel(), begin, numel, "given");
  if (!written_[name].add(begin, begin + numel)) {
    throw CheckpointError(folder_.path(), name,
                          text_of("some of the elements ", begin, " to ",
                                  begin + numel - 1, " are given twice"));
  }
  return tensor;
}

void SafetensorsWriter::write(const std::string& name, int64_t begin,
                              std::span<const float> values) {
  const SafeTensor& tensor = take(name, begin, static_cast<int64_t>(values.size()));
  if (!is_floating(tensor.dtype))
    throw CheckpointError(
        folder_.path(), name,
        text_of("is of type ", name_of(tensor.dtype), ", floats are written"));
  write_values(tensor, begin, values);
}

void SafetensorsWriter::write_stored(const std::string& name, const void* values) {
  const auto found = tensors_.find(name);
  const int64_t numel = found == tensors_.end() ? 0 : found->second.numel();
  const SafeTensor& tensor = take(name, 0, numel);
  files_[tensor.file].write(values, static_cast<size_t>(tensor.num_bytes()),
                            tensor.offset, io_);
}

void SafetensorsWriter::write_values(const SafeTensor& tensor, int64_t begin,
                                     std::span<const float> values) {
  File& file = files_[tensor.file];
  const int64_t element_bytes = size_of(tensor.dtype);
  const auto piece_numel = static_cast<size_t>(kWriteBytes / element_bytes);
  for (size_t done = 0; done < values.size(); done += piece_numel) {
    const auto piece = values.subspan(done, std::min(piece_numel, values.size() - done));
    const size_t bytes = piece.size() * static_cast<size_t>(element_bytes);
    narrow(piece.data(), static_cast<int64_t>(piece.size()), tensor.dtype,
           bounce_.data());
    const int64_t at = begin + static_cast<int64_t>(done);
    file.write(bounce_.data(), bytes, tensor.offset + at * element_bytes, io_);
    unsynced_bytes_ += static_cast<int64_t>(bytes);
    note_work(static_cast<int64_t>(bytes));
  }
  // Now and then, so that the last one does not stand still for minutes.
  if (unsynced_bytes_ < kSyncBytes) return;
  file.sync(io_);
  unsynced_bytes_ = 0;
}

void SafetensorsWriter::finish() {
  for (const auto& [name, tensor] : tensors_) {
    const int64_t gap = written_[name].first_gap();
    if (gap == tensor.numel()) continue;
    throw CheckpointError(
        folder_.path_of(names_[tensor.file]), name,
        text_of("element ", gap, " of ", tensor.numel(), " was never written"));
  }
  // The values are durable before the length that makes them count.
  for (File& file : files_) file.sync(io_);
  for (size_t i = 0; i < files_.size(); ++i) {
    files_[i].write(prefixes_[i].data(), prefixes_[i].size(), 0, io_);
    files_[i].sync(io_);
  }
  if (files_.size() > 1) write_index();
  folder_.sync(io_);
}

// As transformers does: two spaces, sorted, ASCII.
void SafetensorsWriter::write_index() {
  nlohmann::json index;
  int64_t bytes = 0, numel = 0;
  for (const auto& [name, tensor] : tensors_) {
    bytes += tensor.num_bytes();
    numel += tensor.numel();
    index["weight_map"][name] = names_[tensor.file];
  }
  index["metadata"] = {{"total_parameters", numel}, {"total_size", bytes}};
  write_text(folder_, kSafetensorsIndexFile, index.dump(2, ' ', true) + "\n", io_);
}

}  // namespace zero::checkpoint
