// One safetensors file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "checkpoint/error.h"
#include "checkpoint/safetensors.h"
#include "tests/fuzz/target.h"

namespace zero::fuzz {
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

}  // namespace
}  // namespace zero::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zero::fuzz;
  const std::string bytes = text_of(data, size);
  auto tensors = accepted(bytes);
  if (!tensors) return 0;
  claim_bytes_are_shared_out(*tensors, bytes);
  int64_t num_bytes = 0;
  for (const auto& [name, tensor] : *tensors) num_bytes += tensor.num_bytes();
  const std::string header = lay_out_safetensors(*tensors, "fuzz");
  const auto again = accepted(header + std::string(static_cast<size_t>(num_bytes), 'x'));
  claim(again.has_value(), "what was read can be written and read again");
  claim_equal(*tensors, *again);
  return 0;
}
