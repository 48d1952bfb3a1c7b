#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/json.h"

namespace zero::checkpoint {
namespace {

constexpr char kMetadata[] = "__metadata__";

struct Row {
  DType dtype;
  const char* name;
};

// As the reference writer lays them out: the widest first, so that values are aligned.
constexpr Row kRows[] = {{DType::kInt64, "I64"}, {DType::kFp64, "F64"},
                         {DType::kFp32, "F32"},  {DType::kInt32, "I32"},
                         {DType::kBf16, "BF16"}, {DType::kFp16, "F16"},
                         {DType::kUint8, "U8"},  {DType::kBool, "BOOL"}};

size_t rank_of(DType dtype) {
  const auto* row = std::ranges::find(kRows, dtype, &Row::dtype);
  return static_cast<size_t>(row - kRows);
}

int64_t checked_header_bytes(const File& file, int64_t file_bytes) {
  const std::string& path = file.path();
  if (file_bytes < kPrefixBytes) {
    throw CheckpointError(path, "",
                          text_of("has ", file_bytes, " bytes, a header alone ",
                                  "has more; was it cut off?"));
  }
  uint64_t header_bytes = 0;
  file.read(&header_bytes, kPrefixBytes, 0);
  if (header_bytes == 0)
    throw CheckpointError(path, "", "has no header: it was never written to its end");
  if (std::memcmp(&header_bytes, "version ", kPrefixBytes) == 0) {
    throw CheckpointError(path, "", "is no safetensors file but a Git LFS pointer to one",
                          "fetch the file itself: git lfs pull");
  }
  if (header_bytes > static_cast<uint64_t>(file_bytes - kPrefixBytes)) {
    throw CheckpointError(path, "",
                          text_of("counts ", header_bytes, " bytes of header, ",
                                  "the file has ", file_bytes),
                          "was it cut off, or is it no safetensors file?");
  }
  if (header_bytes > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    throw CheckpointError(path, "",
                          text_of("has a header of ", header_bytes, " bytes, ",
                                  "the most is ", kMaxSafetensorsHeaderBytes));
  }
  return static_cast<int64_t>(header_bytes);
}

// The array of counts `key`.
std::vector<int64_t> counts(Fields& fields, const char* key) {
  std::vector<int64_t> values;
  for (const auto& value : fields.array(key)) {
    const auto count = integer_in(value, 0);
    if (!count) fields.fail(text_of("has a \"", key, "\" with what is no count"));
    values.push_back(*count);
  }
  return values;
}

DType read_dtype(Fields& fields) {
  const std::string name = fields.text("dtype");
  const auto* row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows))
    fields.fail("has the type " + printable(name) + ", which is not read here");
  return row->dtype;
}

// Offsets count from the end of the header.
SafeTensor read_entry(Fields& fields, int64_t data_bytes) {
  SafeTensor tensor{read_dtype(fields), counts(fields, "shape")};
  const auto numel = checked_numel(tensor.shape);
  const auto range = counts(fields, "data_offsets");
  fields.done();
  if (!numel) fields.fail("has a shape that is not possible");
  if (range.size() != 2 || range[0] > range[1])
    fields.fail("has \"data_offsets\" that are no range");
  if (range[1] > data_bytes) {
    fields.fail(text_of("ends at byte ", range[1], " of the data, which have ",
                        data_bytes, "; was the file cut off?"));
  }
  if (range[1] - range[0] != tensor.num_bytes()) {
    fields.fail(text_of(
        "has ", range[1] - range[0], " bytes, the shape ", to_string(tensor.shape),
        " of ", kRows[rank_of(tensor.dtype)].name, " needs ", tensor.num_bytes()));
  }
  tensor.offset = range[0];
  return tensor;
}

void check_metadata(const nlohmann::json& metadata, const std::string& file) {
  const bool is_text =
      metadata.is_object() &&
      std::ranges::all_of(metadata, [](const auto& value) { return value.is_string(); });
  if (!is_text)
    throw CheckpointError(file, kMetadata, "is no object whose members are text");
}

SafeTensors parse_header(std::string_view text, int64_t data_bytes,
                         const std::string& file) {
  if (!text.starts_with('{'))
    throw CheckpointError(file, "", "has a header that does not begin with {",
                          "is it no safetensors file?");
  SafeTensors tensors;
  parse_members(text, file, 1, [&](const auto& path, const nlohmann::json& entry) {
    if (path.empty()) return;  // the root, at its end
    const std::string& name = path.front();
    if (name == kMetadata) return check_metadata(entry, file);
    naming(name, [&] {
      Fields fields(entry, file, "");
      tensors.emplace(name, read_entry(fields, data_bytes));
    });
  });
  return tensors;
}

// They begin where the one before ends, and the last ends with the file.
void require_cover(const SafeTensors& tensors, int64_t data_bytes,
                   const std::string& file) {
  std::vector<const SafeTensors::value_type*> in_order;
  for (const auto& entry : tensors) in_order.push_back(&entry);
  std::ranges::sort(in_order, {}, [](const auto* entry) {
    return std::pair(entry->second.offset, entry->second.num_bytes());
  });
  int64_t end = 0;
  for (const auto* entry : in_order) {
    const auto& [name, tensor] = *entry;
    if (tensor.offset != end) {
      throw CheckpointError(file, name,
                            text_of("begins at byte ", tensor.offset, " of the data, ",
                                    tensor.offset < end ? "inside another tensor"
                                                        : "behind bytes of no tensor",
                                    ": ", end, " was expected"));
    }
    end += tensor.num_bytes();
  }
  if (end != data_bytes) {
    throw CheckpointError(
        file, "",
        text_of("has ", data_bytes, " bytes of data, its ", "tensors have ", end));
  }
}

std::string entry_text(const std::string& name, const SafeTensor& tensor) {
  const nlohmann::json shape = tensor.shape;
  return text_of(nlohmann::json(name).dump(), ":{\"dtype\":\"",
                 kRows[rank_of(tensor.dtype)].name, "\",\"shape\":", shape.dump(),
                 ",\"data_offsets\":[", tensor.offset, ",",
                 tensor.offset + tensor.num_bytes(), "]}");
}

}  // namespace

SafeTensors read_safetensors_header(const File& file) {
  const int64_t file_bytes = file.size_bytes();
  const int64_t header_bytes = checked_header_bytes(file, file_bytes);
  std::string text(static_cast<size_t>(header_bytes), '\0');
  file.read(text.data(), text.size(), kPrefixBytes);
  const int64_t data_begin = kPrefixBytes + header_bytes;
  SafeTensors tensors = parse_header(text, file_bytes - data_begin, file.path());
  require_cover(tensors, file_bytes - data_begin, file.path());
  for (auto& [name, tensor] : tensors) tensor.offset += data_begin;
  return tensors;
}

std::string lay_out_safetensors(SafeTensors& tensors, const std::string& file) {
  std::vector<SafeTensors::value_type*> in_order;
  for (auto& entry : tensors) in_order.push_back(&entry);
  std::ranges::stable_sort(in_order, {}, [](const auto* entry) {
    return rank_of(entry->second.dtype);  // those of a type stay sorted by name
  });
  std::string header = text_of("{\"", kMetadata, "\":{\"format\":\"pt\"}");
  int64_t end = 0;
  for (auto* entry : in_order) {
    entry->second.offset = end;
    end += entry->second.num_bytes();
    header += "," + entry_text(entry->first, entry->second);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (static_cast<int64_t>(header.size()) > kMaxSafetensorsHeaderBytes) {
    throw CheckpointError(file, "",
                          text_of("would have a header of ", header.size(),
                                  " bytes, the most is ", kMaxSafetensorsHeaderBytes),
                          "write more files of fewer tensors");
  }
  const uint64_t header_bytes = header.size();
  for (auto& [name, tensor] : tensors)
    tensor.offset += kPrefixBytes + static_cast<int64_t>(header_bytes);
  char prefix[kPrefixBytes];
  std::memcpy(prefix, &header_bytes, kPrefixBytes);
  return std::string(prefix, kPrefixBytes) + header;
}

}  // namespace zero::checkpoint
