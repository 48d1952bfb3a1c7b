#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/host_device.h"

struct XXH3_state_s;

namespace zero {

// A number's bits spread over all of them, one to one: the finalizer of splitmix64
// (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
ZERO_HOST_DEVICE uint64_t mixed(uint64_t bits) {
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

// What splitmix64 draws in this state.
ZERO_HOST_DEVICE uint64_t splitmix(uint64_t state) {
  return mixed(state + 0x9e3779b97f4a7c15u);
}

// XXH3, 64 bits: it finds accidents, not forgeries.
uint64_t hash_of(const void* data, size_t bytes);

// Hash bytes that come in several parts.
class Hasher {
 public:
  explicit Hasher(uint64_t seed = 0);
  void add(const void* data, size_t bytes);
  uint64_t digest() const;

 private:
  std::shared_ptr<XXH3_state_s> state_;
};

std::string to_hex(uint64_t hash);  // 16 lower-case digits
std::string hex_hash(std::string_view text);
std::optional<uint64_t> from_hex(std::string_view digits);

}  // namespace zero
