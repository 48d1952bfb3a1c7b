#pragma once
#include "offload/exact_sum.h"

namespace zero {
class Device;
class ShardKernels;
}  // namespace zero

// What libzero_cuda.so offers; the caller owns the result.
extern "C" zero::ShardKernels* zero_make_shard_kernels(zero::Device& gpu,
                                                       zero::NormType norm);
