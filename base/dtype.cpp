#include "base/dtype.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>

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
    {DType::kUint8, "uint8", 1}, {DType::kBool, "bool", 1},   {DType::kInt8, "int8", 0},
};

const Row& row_of(DType dtype) {
  const Row& row = kRows[static_cast<size_t>(dtype)];
  assert(row.dtype == dtype);  // the table follows the order of the enum
  return row;
}

static_assert(std::endian::native == std::endian::little);  // as in every file

template <class Stored, class Convert>
void widen_each(const char* __restrict from, int64_t n, float* __restrict to,
                const Convert& convert) {
  for (int64_t i = 0; i < n; ++i) {
    Stored value;
    std::memcpy(&value, from + i * int64_t{sizeof(Stored)}, sizeof(Stored));
    to[i] = convert(value);
  }
}

template <class Stored, class Convert>
void narrow_each(const float* __restrict from, int64_t n, char* __restrict to,
                 const Convert& convert) {
  for (int64_t i = 0; i < n; ++i) {
    const Stored value = convert(from[i]);
    std::memcpy(to + i * int64_t{sizeof(Stored)}, &value, sizeof(Stored));
  }
}

}  // namespace

const char* name_of(DType dtype) { return row_of(dtype).name; }
int64_t size_of(DType dtype) { return row_of(dtype).bytes; }

int64_t bytes_of(DType dtype, int64_t numel) {
  constexpr int64_t kNumel = Int8Block::kNumel;
  if (dtype != DType::kInt8) return numel * size_of(dtype);
  return (numel + kNumel - 1) / kNumel * int64_t{sizeof(Int8Block)};
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name && row.bytes > 0) return row.dtype;
  }
  return std::nullopt;
}

bool is_floating(DType dtype) {
  return dtype == DType::kFp64 || dtype == DType::kFp32 || dtype == DType::kBf16 ||
         dtype == DType::kFp16;
}

namespace {

// Below it some threads take floats for zero.
constexpr float kLeastFactor = 0x1p-124f;

// To nearest, ties to even.
float rounded_to_16_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fu + ((bits >> 8) & 1u)) & ~0xffu);
}

}  // namespace

void encode(const float* from, int64_t numel, Int8Block& to) {
  assert(0 < numel && numel <= Int8Block::kNumel);
  float largest = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < numel; ++i) {
    is_finite = is_finite && std::isfinite(from[i]);
    largest = std::max(largest, std::fabs(from[i]));
  }
  std::memset(to.values, 0, sizeof to.values);
  to.factor = is_finite ? rounded_to_16_bits(largest / 127.0f)
                        : std::numeric_limits<float>::quiet_NaN();
  if (to.factor < kLeastFactor) to.factor = 0;
  if (!is_finite || to.factor == 0) return;
  for (int64_t i = 0; i < numel; ++i) {
    const float value = std::nearbyint(from[i] / to.factor);
    to.values[i] = static_cast<int8_t>(std::clamp(value, -127.0f, 127.0f));
  }
}

void widen(DType dtype, const char* from, int64_t n, float* to) {
  assert(is_floating(dtype));
  const auto as_float = [](double value) { return static_cast<float>(value); };
  if (dtype == DType::kFp64) widen_each<double>(from, n, to, as_float);
  if (dtype == DType::kFp32) widen_each<float>(from, n, to, std::identity());
  if (dtype == DType::kBf16) widen_each<uint16_t>(from, n, to, bf16_to_float);
  if (dtype == DType::kFp16) widen_each<uint16_t>(from, n, to, fp16_to_float);
}

void narrow(const float* from, int64_t n, DType dtype, char* to) {
  assert(is_floating(dtype));
  if (dtype == DType::kFp64) narrow_each<double>(from, n, to, std::identity());
  if (dtype == DType::kFp32) narrow_each<float>(from, n, to, std::identity());
  if (dtype == DType::kBf16) narrow_each<uint16_t>(from, n, to, float_to_bf16);
  if (dtype == DType::kFp16) narrow_each<uint16_t>(from, n, to, float_to_fp16);
}

}  // namespace zero
