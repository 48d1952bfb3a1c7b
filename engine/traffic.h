#pragma once
#include <cstdint>

namespace zero {

// Bytes that one rank moved for its weights and gradients. What becomes of activations
// stands in OffloadedBytes.
struct Traffic {
  // Between a GPU's memory and the host's, both ways; nothing where the host computes.
  int64_t to_device = 0, from_device = 0;
  // Of weights, in all-gathers: what this rank got of the other ranks' shards.
  int64_t gathered = 0;
  // Of gradients, in reduce-scatters: what this rank gave of its own to the other ranks,
  // in the type that travels.
  int64_t reduced = 0;

  bool operator==(const Traffic&) const = default;
};

inline Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.to_device - b.to_device, a.from_device - b.from_device,
          a.gathered - b.gathered, a.reduced - b.reduced};
}

}  // namespace zero
