#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "checkpoint/file.h"
#include "checkpoint/tensor.h"

// One file of the safetensors format: 8 bytes that count those of a JSON header, the
// header, the values. Whatever stands in a file may have been made to do harm.
namespace zero::checkpoint {

constexpr char kSafetensorsFile[] = "model.safetensors";
constexpr char kAdapterFile[] = "adapter_model.safetensors";  // peft's
constexpr char kSafetensorsIndexFile[] = "model.safetensors.index.json";
constexpr int64_t kPrefixBytes = 8;  // the length of the header

// Larger headers are not read. The format allows 100 MB; those of real models have some
// 120 bytes a tensor.
constexpr int64_t kMaxSafetensorsHeaderBytes = int64_t{24} << 20;

// Where one tensor's values lie, in row-major order.
struct SafeTensor {
  DType dtype = DType::kFp32;
  Shape shape;
  int64_t offset = 0;  // of the first byte, in the file
  size_t file = 0;     // which one of a folder's files

  int64_t numel() const { return checked_numel(shape).value(); }
  int64_t num_bytes() const { return numel() * size_of(dtype); }
};

using SafeTensors = std::map<std::string, SafeTensor>;

// Read a file's header, and make sure that its tensors cover the rest of the file without
// holes and overlaps.
//
// Memory grows with the header's bytes and number of tensors alone. Throws
// CheckpointError with the file, the tensor and what is wrong.
SafeTensors read_safetensors_header(const File& file);

// Lay tensors out in one file as the reference writer does: the widest types first, then
// by name. Sets their offsets, and returns the file's first bytes, up to the values.
// `file` is named when the header becomes too large to be read again.
std::string lay_out_safetensors(SafeTensors& tensors, const std::string& file);

}  // namespace zero::checkpoint
