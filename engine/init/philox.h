#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace zero {

// The counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011): 128 random bits as a pure function of a key and a counter.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high);

// A well-mixed 64-bit key from a seed and a name (an FQN or a purpose).
uint64_t hash_key(uint64_t seed, std::string_view name);
uint64_t hash_key(uint64_t seed, uint64_t value);

}  // namespace zero
