#pragma once
#include <cstdint>

namespace zero {

// What became of the inputs of units that an engine keeps in the host's memory until
// their backward (Options::offload_activations).
struct OffloadedBytes {
  int64_t out = 0;     // copied to the host so far
  int64_t back = 0;    // copied back to the device so far
  int64_t pinned = 0;  // held by the host's pool, in use or not; it does not shrink
};

// Calls whose inputs are on the device as well: of the last ones in forward, until later
// ones take their place; in backward, of the one that runs and the one that is next.
constexpr int kNumResidentCalls = 2;

}  // namespace zero
