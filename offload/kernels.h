#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "offload/random.h"
#include "offload/update.h"

namespace zero {

// convert_to_fp16()
using ToFp16 = void(const float* from, uint16_t* to, int64_t n);

// The loops over every parameter, on one thread, compiled for one instruction set.
struct Kernels {
  const char* isa;
  // One step of a rule on one piece.
  void (*update)(const UpdatePiece& piece, const UpdateRule& rule);
  // See sweep_loop.h.
  void (*sweep)(const UpdatePiece& piece, uint32_t no_bits);
  // sums (num_leaves): of the squares of 64 values each, see leaf_loop.h.
  void (*leaf_squares)(const float* values, int64_t num_leaves, double* sums);
  ToFp16* to_fp16;
  // fill_random()
  void (*fill)(const Draw& draw, uint64_t key, int64_t begin, std::span<float> values);
};

// For the instructions that every CPU of this kind has.
Kernels baseline_kernels();

// The versions that this CPU can run, the plain one first, the fastest last. All give the
// same bits. The build picks the file that lists them.
std::vector<Kernels> kernels();

inline const Kernels& fastest_kernels() {
  static const Kernels fastest = kernels().back();
  return fastest;
}

}  // namespace zero
