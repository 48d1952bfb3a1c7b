#include "engine/init/philox.h"

namespace zero {
namespace {

uint64_t mix(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low,
                               uint64_t counter_high) {
  std::array<uint32_t, 4> c{
      static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
      static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

uint64_t hash_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over the name, mixed with the seed
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return mix(hash ^ mix(seed + 0x9e3779b97f4a7c15u));
}

uint64_t hash_key(uint64_t seed, uint64_t value) {
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + value);
}

}  // namespace zero
