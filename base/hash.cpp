#include "base/hash.h"

#include <xxhash.h>
#ifdef ZERO_XXHASH_DISPATCHES
#include <xxh_x86dispatch.h>  // the same names, by the widest vectors of the processor
#endif

#include <charconv>
#include <cstdio>
#include <new>

namespace zero {

uint64_t hash_of(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

Hasher::Hasher(uint64_t seed) : state_(XXH3_createState(), XXH3_freeState) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset_withSeed(state_.get(), seed);
}

void Hasher::add(const void* data, size_t bytes) {
  XXH3_64bits_update(state_.get(), data, bytes);
}

uint64_t Hasher::digest() const { return XXH3_64bits_digest(state_.get()); }

std::string to_hex(uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string hex_hash(std::string_view text) {
  return to_hex(hash_of(text.data(), text.size()));
}

std::optional<uint64_t> from_hex(std::string_view digits) {
  uint64_t hash = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  return to_hex(hash) == digits ? std::optional(hash) : std::nullopt;
}

}  // namespace zero
