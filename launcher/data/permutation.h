#pragma once
#include <cstdint>

namespace zero::data {

// Shuffle [0, n) without a table: an exact bijection chosen by (seed, epoch), in constant
// memory.
//
// A Feistel network permutes the smallest range of 4^k numbers that covers n; results
// outside [0, n) go through it again until one falls inside (cycle walking), fewer than 4
// times on average. The order depends on the three numbers alone and is part of what a
// resumed run relies on: a change here changes every shuffled run. Source: Black and
// Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002.
class Permutation {
 public:
  // n >= 1
  Permutation(int64_t n, uint64_t seed, uint64_t epoch);

  // The number at place i of the shuffled order, 0 <= i < n.
  int64_t operator()(int64_t i) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  // Constant after construction.
  uint64_t n_;
  uint64_t key_;
  int half_bits_;  // k
};

}  // namespace zero::data
