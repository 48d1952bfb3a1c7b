#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace zero {

inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxFactors[] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxKeySteps[] = {0x9E3779B9, 0xBB67AE85};

// The counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011): 128 random bits as a pure function of a key and a counter.
// Forced inline, so that a loop over counters takes on the caller's instruction set.
[[gnu::always_inline]] inline std::array<uint32_t, 4> philox(uint64_t key,
                                                             uint64_t counter_low,
                                                             uint64_t counter_high) {
  std::array<uint32_t, 4> c{
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxFactors[0]} * c[0];
    const uint64_t p1 = uint64_t{kPhiloxFactors[1]} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kPhiloxKeySteps[0];
    k1 += kPhiloxKeySteps[1];
  }
  return c;
}

// A well-mixed 64-bit key from a seed and a name (an FQN or a purpose).
uint64_t hash_key(uint64_t seed, std::string_view name);
uint64_t hash_key(uint64_t seed, uint64_t value);

// What the words of Philox become, one an element. Scalars are made in fp64 and rounded
// once; elements are made in fp32, every operation rounded: see random_loop.h.

struct NormalDraw {
  float mean = 0, std = 1;
};

// Between its bounds lie 2^24 equal steps; an element is the middle of one.
struct UniformDraw {
  float middle = 0, width = 1;
  float low = -0.5f, high = 0.5f;
};

// What a normal number is where it is known to lie inside: the inverse of the normal
// distribution function, of one uniform number between the bounds' probabilities.
struct TruncatedNormalDraw {
  float mean = 0, std = 1;
  float below = 0, inside = 1, above = 0;  // the normal's probabilities
  float low = 0, high = 0;                 // in values
};

using Draw = std::variant<NormalDraw, UniformDraw, TruncatedNormalDraw>;

NormalDraw normal_draw(double mean, double std);
UniformDraw uniform_draw(double low, double high);

// Bounds are values, not deviations. Where fp32 knows no probability for what lies
// between them (13 deviations away), every element is the bound nearer to the mean.
TruncatedNormalDraw truncated_normal_draw(double mean, double std, double low,
                                          double high);

// Make elements [begin, begin + values.size()) of the endless tensor that `key` names, on
// the calling thread. Element i is a function of (draw, key, i) alone: the same bits in
// any pieces, on any instruction set. `begin` is not negative.
void fill_random(const Draw& draw, uint64_t key, int64_t begin, std::span<float> values);

}  // namespace zero
