// One safetensors file; or, where it begins with {, the index of two.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_folder.h"
#include "tests/fuzz/target.h"
#include "tests/launcher/settings/configs.h"

namespace zero::fuzz::safetensors {
namespace {

using namespace checkpoint;

// A file in memory.
File file_of(const std::string& bytes) {
  const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
  claim(descriptor >= 0, "memory can be had as a file");
  File file(descriptor, "fuzz");
  file.write(bytes.data(), bytes.size(), 0, system_io());
  return file;
}

std::optional<SafeTensors> accepted(const std::string& bytes) {
  try {
    return read_safetensors_header(file_of(bytes));
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

// Every byte behind the header belongs to one tensor.
void claim_bytes_are_shared_out(const SafeTensors& tensors, const std::string& bytes) {
  const auto file_bytes = static_cast<int64_t>(bytes.size());
  std::string owned(bytes.size(), '\0');
  int64_t data_begin = file_bytes;
  for (const auto& [name, tensor] : tensors) {
    claim(0 <= tensor.offset && 0 <= tensor.num_bytes(), "a tensor is somewhere");
    claim(tensor.num_bytes() <= file_bytes - tensor.offset, "a tensor lies in the file");
    data_begin = std::min(data_begin, tensor.offset);
    for (int64_t i = 0; i < tensor.num_bytes(); ++i)
      claim(owned[static_cast<size_t>(tensor.offset + i)]++ == 0, "no byte is shared");
  }
  claim(owned.find('\0', static_cast<size_t>(data_begin)) == owned.npos,
        "every byte is some tensor's");
}

void claim_equal(const SafeTensors& a, const SafeTensors& b) {
  claim(a.size() == b.size(), "as many tensors");
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    claim(found != b.end() && found->second.dtype == tensor.dtype &&
              found->second.shape == tensor.shape &&
              found->second.offset == tensor.offset,
          "a header that was written is read as it was");
  }
}

void claim_file(const std::string& bytes) {
  auto tensors = accepted(bytes);
  if (!tensors) return;
  claim_bytes_are_shared_out(*tensors, bytes);
  int64_t num_bytes = 0;
  for (const auto& [name, tensor] : *tensors) num_bytes += tensor.num_bytes();
  const std::string header = lay_out_safetensors(*tensors, "fuzz");
  const auto again = accepted(header + std::string(static_cast<size_t>(num_bytes), 'x'));
  claim(again.has_value(), "what was read can be written and read again");
  claim_equal(*tensors, *again);
}

// Holds the tensors "a" and "b" in the files "1" and "2".
const launcher::TempFolder& model_folder() {
  static const launcher::TempFolder folder;
  static const bool is_filled = [] {
    for (const auto& [file, name] : {std::pair("1", "a"), std::pair("2", "b")}) {
      SafeTensors tensors = {{name, {DType::kFp32, {2}}}};
      folder.write(file, lay_out_safetensors(tensors, file) + std::string(8, '\0'));
    }
    return true;
  }();
  claim(is_filled, "the folder is filled once");
  return folder;
}

// One that is accepted leads to the tensors of the files it names, and to no others.
void claim_index(const std::string& text) {
  model_folder().write(kSafetensorsIndexFile, text);
  try {
    SafetensorsFolder model(model_folder().path(""));
    for (const auto& file : model.files())
      claim(file == "1" || file == "2", "a file is one of the folder's");
    claim(model.tensors().size() == model.files().size(), "a file has one tensor");
    for (const auto& [name, tensor] : model.tensors()) {
      float values[2] = {1, 1};
      model.read(name, 0, values);
      claim(values[0] == 0 && values[1] == 0, "a tensor has its values");
    }
  } catch (const CheckpointError&) {
  }
}

}  // namespace

void target(const std::string& bytes) {
  if (bytes.starts_with('{')) {
    claim_index(bytes);
  } else {
    claim_file(bytes);
  }
}

}  // namespace zero::fuzz::safetensors
