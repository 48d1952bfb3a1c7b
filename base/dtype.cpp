#include "base/dtype.h"

#include <cassert>
#include <cstddef>

namespace zero {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int64_t bytes;
};

constexpr Row kRows[] = {
    {DType::kFp64, "fp64", 8},   {DType::kFp32, "fp32", 4},   {DType::kBf16, "bf16", 2},
    {DType::kFp16, "fp16", 2},   {DType::kInt64, "int64", 8}, {DType::kInt32, "int32", 4},
    {DType::kUint8, "uint8", 1}, {DType::kBool, "bool", 1},
};

const Row& row_of(DType dtype) {
  const Row& row = kRows[static_cast<size_t>(dtype)];
  assert(row.dtype == dtype);  // the table follows the order of the enum
  return row;
}

}  // namespace

const char* name_of(DType dtype) { return row_of(dtype).name; }
int64_t size_of(DType dtype) { return row_of(dtype).bytes; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace zero
