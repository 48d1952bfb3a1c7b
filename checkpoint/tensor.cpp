#include "checkpoint/tensor.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace zero::checkpoint {
namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t bytes;
};

constexpr DTypeRow kDTypes[] = {
    {DType::kFp64, "fp64", 8},   {DType::kFp32, "fp32", 4},   {DType::kBf16, "bf16", 2},
    {DType::kFp16, "fp16", 2},   {DType::kInt64, "int64", 8}, {DType::kInt32, "int32", 4},
    {DType::kUint8, "uint8", 1}, {DType::kBool, "bool", 1},
};

constexpr std::string_view kKindNames[] = {"params", "exp_avg", "exp_avg_sq", "buffers",
                                           "user"};

const DTypeRow& row_of(DType dtype) {
  const auto& row = kDTypes[static_cast<size_t>(dtype)];
  assert(row.dtype == dtype);  // the table follows the order of the enum
  return row;
}

}  // namespace

const char* name_of(Kind kind) { return kKindNames[static_cast<size_t>(kind)].data(); }
const char* name_of(DType dtype) { return row_of(dtype).name; }
int64_t size_of(DType dtype) { return row_of(dtype).bytes; }

std::optional<Kind> kind_named(std::string_view name) {
  const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), name);
  if (found == std::end(kKindNames)) return std::nullopt;
  return static_cast<Kind>(found - std::begin(kKindNames));
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const auto& row : kDTypes) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace zero::checkpoint
