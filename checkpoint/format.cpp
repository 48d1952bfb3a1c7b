#include "checkpoint/format.h"

#include <cassert>
#include <charconv>
#include <cstdio>
#include <random>

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

constexpr const char* kKindNames[] = {"params", "exp_avg", "exp_avg_sq", "buffers",
                                      "user"};

const DTypeRow& row_of(DType dtype) {
  const auto& row = kDTypes[static_cast<size_t>(dtype)];
  assert(row.dtype == dtype);  // the table follows the order of the enum
  return row;
}

}  // namespace

const char* name_of(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }
const char* name_of(DType dtype) { return row_of(dtype).name; }
int64_t size_of(DType dtype) { return row_of(dtype).bytes; }

std::optional<Kind> kind_named(std::string_view name) {
  for (const Kind kind : kAllKinds) {
    if (name == name_of(kind)) return kind;
  }
  return std::nullopt;
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const auto& row : kDTypes) {
    if (name == row.name) return row.dtype;
  }
  return std::nullopt;
}

std::string step_folder(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof(name), "step_%012lld", static_cast<long long>(step));
  return name;
}

std::optional<int64_t> step_of(std::string_view folder) {
  constexpr std::string_view kPrefix = "step_";
  if (!folder.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = folder.substr(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || step < 0) return std::nullopt;
  if (end != digits.data() + digits.size()) return std::nullopt;
  return step_folder(step) == folder ? std::optional(step) : std::nullopt;
}

std::string shard_file(int rank, int world_size) {
  char name[48];
  std::snprintf(name, sizeof(name), "shard_%05d_of_%05d.h5", rank, world_size);
  return name;
}

std::string temporary_name(const std::string& what) {
  std::random_device random;
  char nonce[20];
  std::snprintf(nonce, sizeof(nonce), ".%08x%08x", random(), random());
  return kTemporaryPrefix + what + nonce;
}

bool looks_like_shard(std::string_view file) { return file.starts_with("shard_"); }

}  // namespace zero::checkpoint
