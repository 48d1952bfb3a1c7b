#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct XXH3_state_s;

// XXH3, 64 bits: it finds accidents, not forgeries.
namespace zero {

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
std::optional<uint64_t> from_hex(std::string_view digits);

}  // namespace zero
