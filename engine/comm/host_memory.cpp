#include "engine/comm/host_memory.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>

namespace zero {
namespace {

// Floats: the partial sums of a block stay in the first-level cache.
constexpr int64_t kBlock = 2048;
constexpr int64_t kLanes = 4;  // what every x86-64 and Arm has

// Some floats at once; memcpy is an unaligned load or store.
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Bf16s = uint16_t __attribute__((vector_size(2 * kLanes)));
using Words = uint32_t __attribute__((vector_size(4 * kLanes)));

template <typename T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

struct Float {
  static constexpr int64_t kBytes = 4;
  static float load(const std::byte* from) { return read<float>(from); }
  static Floats load_lanes(const std::byte* from) { return read<Floats>(from); }
};

// The upper half of a float.
struct Bf16 {
  static constexpr int64_t kBytes = 2;
  static float load(const std::byte* from) {
    return std::bit_cast<float>(uint32_t{read<uint16_t>(from)} << 16);
  }
  static Floats load_lanes(const std::byte* from) {
    const Words words = __builtin_convertvector(read<Bf16s>(from), Words);
    return std::bit_cast<Floats>(words << 16);
  }
};

template <typename Left, typename Right>
void add(const std::byte* left, const std::byte* right, float* out, int64_t numel) {
  int64_t i = 0;
  for (; i + kLanes <= numel; i += kLanes) {
    const Floats sum = Left::load_lanes(left + i * Left::kBytes) +
                       Right::load_lanes(right + i * Right::kBytes);
    std::memcpy(out + i, &sum, sizeof(sum));
  }
  for (; i < numel; ++i) {
    out[i] = Left::load(left + i * Left::kBytes) + Right::load(right + i * Right::kBytes);
  }
}

template <typename Type>
void convert(const std::byte* from, float* out, int64_t numel) {
  for (int64_t i = 0; i < numel; ++i) out[i] = Type::load(from + i * Type::kBytes);
}

// Sum elements [begin, begin + numel) of the sources, numel <= kBlock.
template <typename Type>
void sum_block(std::span<const void* const> sources, int64_t begin, float* out,
               int64_t numel) {
  auto part = [&](size_t i) {
    return static_cast<const std::byte*>(sources[i]) + begin * Type::kBytes;
  };
  if (sources.size() == 1) return convert<Type>(part(0), out, numel);
  if (sources.size() == 2) return add<Type, Type>(part(0), part(1), out, numel);

  const size_t num_left = std::bit_floor(sources.size() - 1);
  // Not in `out`: it may be a source of the right half.
  float left[kBlock], right[kBlock];
  sum_block<Type>(sources.first(num_left), begin, left, numel);
  sum_block<Type>(sources.subspan(num_left), begin, right, numel);
  add<Float, Float>(reinterpret_cast<std::byte*>(left),
                    reinterpret_cast<std::byte*>(right), out, numel);
}

template <typename Type>
void sum_all(std::span<const void* const> sources, float* out, int64_t numel) {
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    sum_block<Type>(sources, begin, out + begin, std::min(kBlock, numel - begin));
  }
}

}  // namespace

void tree_sum(std::span<const void* const> sources, DType type, float* out,
              int64_t numel) {
  assert(!sources.empty());
  if (type == DType::kFp32) {
    sum_all<Float>(sources, out, numel);
  } else {
    assert(type == DType::kBf16);
    sum_all<Bf16>(sources, out, numel);
  }
}

}  // namespace zero
