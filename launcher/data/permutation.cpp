#include "launcher/data/permutation.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace zero::data {
namespace {

constexpr int kNumRounds = 8;

// SplitMix64's step: a bijection in which every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(int64_t n, uint64_t seed, uint64_t epoch)
    : n_(static_cast<uint64_t>(n)), key_(mix(mix(seed) + epoch)) {
  assert(n >= 1);
  half_bits_ = std::max(1, static_cast<int>(std::bit_width(n_ - 1) + 1) / 2);
}

int64_t Permutation::operator()(int64_t i) const {
  auto value = static_cast<uint64_t>(i);
  assert(value < n_);
  do {
    value = encrypt(value);
  } while (value >= n_);  // ends: the cycle through i comes back to i, which is below n
  return static_cast<int64_t>(value);
}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint64_t round = 0; round < kNumRounds; ++round) {
    const uint64_t scrambled = mix(mix(key_ + round) ^ right) & mask;
    left ^= scrambled;
    std::swap(left, right);
  }
  return (left << half_bits_) | right;
}

}  // namespace zero::data
