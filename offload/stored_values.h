#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/host_device.h"

namespace zero {

// A float in two halves of 16 bits, lossless: the high one is the float rounded to bf16,
// ties away from zero, the low one what is missing, signed. Every NaN becomes one.
struct SplitFloat {
  uint16_t high, low;
};

ZERO_HOST_DEVICE SplitFloat split_float(float value) {
  const uint32_t bits =
      value == value ? std::bit_cast<uint32_t>(value) : uint32_t{0x7fc00000u};
  return {static_cast<uint16_t>((bits + 0x8000u) >> 16), static_cast<uint16_t>(bits)};
}

ZERO_HOST_DEVICE float join_float(uint16_t high, uint16_t low) {
  const auto missing = static_cast<uint32_t>(static_cast<int16_t>(low));
  return std::bit_cast<float>((uint32_t{high} << 16) + missing);
}

// Memory that this process cannot read and write by itself, such as a GPU's.
class FarMemory {
 public:
  virtual ~FarMemory() = default;
  // Copy bytes from there, and to there; done when it returns. From any thread.
  virtual void read(void* here, const void* there, int64_t bytes) = 0;
  virtual void write(void* there, const void* here, int64_t bytes) = 0;
};

// fp32 values in one of the ways in which a shard keeps them: as they are, rounded to
// bf16, fp16 or blocks of int8, or split. A view of memory that another owns; empty at
// first.
class StoredValues {
 public:
  StoredValues() = default;
  StoredValues(float* values, int64_t numel) : plain_(values), numel_(numel) {}
  static StoredValues in_bf16(uint16_t* values, int64_t numel);
  static StoredValues in_fp16(uint16_t* values, int64_t numel);
  // The first value is the first of a block.
  static StoredValues in_int8(Int8Block* blocks, int64_t numel);
  static StoredValues in_halves(uint16_t* high, uint16_t* low, int64_t numel);
  // The same, of arrays that lie there; null: they are here.
  StoredValues in(FarMemory* memory) const;
  // The same values; if another memory has them, it is asked by this way.
  StoredValues through(FarMemory& way) const { return far_ ? in(&way) : *this; }

  size_t size() const { return static_cast<size_t>(numel_); }
  bool empty() const { return numel_ == 0; }
  float operator[](size_t i) const;

  // Copy elements [begin, begin + size of the span); writing rounds as the storage does.
  // Blocks are written whole: std::logic_error for other elements.
  void read(int64_t begin, std::span<float> to) const;
  void write(int64_t begin, std::span<const float> from) const;
  std::vector<float> read_all() const;

  // Let `make(std::span<float>)` set `numel` elements from `begin` on: in place where
  // they are plain, else beside it, and then written.
  template <class Make>
  void set(int64_t begin, int64_t numel, const Make& make) const {
    if (is_plain()) return make(span().subspan(begin, numel));
    std::vector<float> values(numel);
    make(std::span(values));
    write(begin, values);
  }

  // The same of all elements in their order, `make(int64_t begin, std::span<float>)`: at
  // once where they are plain, else a few MiB at a time.
  template <class Make>
  void set_all(const Make& make) const {
    const int64_t step = is_plain() ? numel_ : kFewAtOnce;
    for (int64_t begin = 0; begin < numel_; begin += step) {
      set(begin, std::min(step, numel_ - begin),
          [&](std::span<float> part) { make(begin, part); });
    }
  }
  static constexpr int64_t kFewAtOnce = 1 << 20;

  // Are they floats of this process?
  bool is_plain() const { return !high_ && !blocks_ && !far_; }
  // The values themselves. Throws std::logic_error unless they are plain.
  std::span<float> span() const;

 private:
  void read_far(int64_t begin, std::span<float> to) const;
  void write_far(int64_t begin, std::span<const float> from) const;
  template <class Move>
  void move_far(int64_t begin, int64_t numel, const Move& move) const;
  template <class Copy>
  void each_array(const StoredValues& near, int64_t begin, const Copy& copy) const;
  void require_whole_blocks(int64_t begin, int64_t numel) const;

  float* plain_ = nullptr;
  uint16_t* high_ = nullptr;
  uint16_t* low_ = nullptr;  // null: high_ alone, rounded to nearest even
  bool is_fp16_ = false;     // of high_ alone
  Int8Block* blocks_ = nullptr;
  FarMemory* far_ = nullptr;
  int64_t numel_ = 0;
};

}  // namespace zero
