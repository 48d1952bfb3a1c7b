#pragma once
#include <cstdint>

namespace zero {
class ThreadPool;
}

namespace zero::launcher {

// The arrays that an update goes through.
struct SweptArrays {
  const float* grad = nullptr;  // (numel) read
  float* master = nullptr;      // (numel) read and written, as are the moments
  float* exp_avg = nullptr;     // (numel)
  float* exp_avg_sq = nullptr;  // (numel)
  uint16_t* copy = nullptr;     // (numel) written; null: none
  int64_t numel = 0;

  // What goes through memory: 28 bytes an element, 30 with a copy.
  int64_t num_bytes() const { return numel * (copy ? 30 : 28); }
};

// Read and write all that an update reads and writes, and calculate nothing: what no
// update can be faster than. Values stay as they are; the copy becomes the upper halves.
void sweep(const SweptArrays& arrays, ThreadPool& threads);

}  // namespace zero::launcher
