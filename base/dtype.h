#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace zero {

// What the elements of a tensor are, wherever they lie: in memory, on the wire, in a
// file.
enum class DType { kFp64, kFp32, kBf16, kFp16, kInt64, kInt32, kUint8, kBool };

const char* name_of(DType dtype);  // "fp32", "bf16", ...
int64_t size_of(DType dtype);      // bytes of one element
std::optional<DType> dtype_named(std::string_view name);

}  // namespace zero
