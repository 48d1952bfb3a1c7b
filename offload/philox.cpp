#include "offload/philox.h"

namespace zero {
namespace {

uint64_t mix(uint64_t x) {  // the finaliser of splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t hash_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over the name, mixed with the seed
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return mix(hash ^ mix(seed + 0x9e3779b97f4a7c15u));
}

uint64_t hash_key(uint64_t seed, uint64_t value) {
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + value);
}

}  // namespace zero
