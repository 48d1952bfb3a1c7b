#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "checkpoint/dtype.h"

// The engine's own arithmetic on a GPU: with the bits of the host's, but for the payload
// of a NaN, so that it does not matter where something is computed.
//
// Each function queues one kernel in a stream of the calling thread's GPU and returns;
// for no elements it queues nothing. Arrays lie in that GPU's memory, or in pinned memory
// of the host, and do not overlap but where it is said. They may begin anywhere; at
// multiples of 16 bytes they are read and written 16 at a time. Types are kFp32 or kBf16.
//
// Throw Error(kEnvironment) when CUDA refuses a launch, or has failed before.
namespace zero {

// to (numel) = the sum of `num_pieces` pieces, the i-th of which begins at element
// i * stride of `pieces`, in adjacent-pair tree order, ((0+1)+(2+3))+4, as tree_sum() of
// engine/comm adds them up. There is one piece at least; `to` may be one of them.
void queue_tree_sum(float* to, const void* pieces, DType type, int num_pieces,
                    int64_t stride, int64_t numel, cudaStream_t stream);

}  // namespace zero
