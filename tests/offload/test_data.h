#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace zero {

// Numbers that are the same on every machine: splitmix64 in integers, scaled exactly.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed) {}

  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // In [-scale, scale); `scale` is a power of two.
  float uniform(float scale) {
    return static_cast<float>(static_cast<int32_t>(bits() >> 40) - (1 << 23)) * 0x1p-23f *
           scale;
  }

  // As uniform(), times 2^-0 .. 2^-30: magnitudes as far apart as those of gradients.
  float spread(float scale) {
    const auto exponent = static_cast<int>(bits() % 31);
    return uniform(scale) / static_cast<float>(int64_t{1} << exponent);
  }

 private:
  uint64_t state_;
};

inline std::vector<float> uniform_values(int64_t numel, uint64_t seed, float scale) {
  Numbers numbers(seed);
  std::vector<float> values(numel);
  for (float& value : values) value = numbers.uniform(scale);
  return values;
}

inline std::vector<float> spread_values(int64_t numel, uint64_t seed, float scale) {
  Numbers numbers(seed);
  std::vector<float> values(numel);
  for (float& value : values) value = numbers.spread(scale);
  return values;
}

inline std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = std::bit_cast<uint32_t>(values[i]);
  return bits;
}

}  // namespace zero
