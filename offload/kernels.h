#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "offload/random.h"
#include "offload/update.h"

namespace zero {

// One step of a rule on one piece, on the calling thread.
template <class Rule>
using UpdateKernel = void (*)(const UpdatePiece& piece, const Rule& rule);

// fill_random() of random.h.
template <class Kind>
using FillKernel = void (*)(const Kind& draw, uint64_t key, int64_t begin,
                            std::span<float> values);

// convert_to_fp16() of fp16.h.
using ToFp16 = void(const float* from, uint16_t* to, int64_t n);

// The loops over every parameter, on one thread, compiled for one instruction set.
struct Kernels {
  const char* isa;
  std::tuple<UpdateKernel<AdamWRule>, UpdateKernel<SgdRule>, UpdateKernel<LionRule>,
             UpdateKernel<AdagradRule>>
      updates;
  // See sweep_loop.h.
  void (*sweep)(const UpdatePiece& piece, uint32_t no_bits);
  // sums (num_leaves): of the squares of 64 values each, see leaf_loop.h.
  void (*leaf_squares)(const float* values, int64_t num_leaves, double* sums);
  ToFp16* to_fp16;
  std::tuple<FillKernel<NormalDraw>, FillKernel<UniformDraw>,
             FillKernel<TruncatedNormalDraw>>
      fills;
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
