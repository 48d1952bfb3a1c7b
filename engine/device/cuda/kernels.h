#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"
#include "offload/decode.h"
#include "offload/exact_sum.h"
#include "offload/update.h"

// The engine's own arithmetic on a GPU: with the bits of the host's, but for the payload
// of a NaN, so that it does not matter where something is computed.
//
// Each function queues one kernel in a stream of the calling thread's GPU and returns;
// for no elements it queues nothing. Arrays lie in that GPU's memory, or in pinned memory
// of the host, and do not overlap but where it is said. They may begin anywhere; at
// multiples of 16 bytes they are read and written 16 at a time. Types are kFp32 or kBf16,
// where nothing else is said.
//
// Throw Error(kEnvironment) when CUDA refuses a launch, or has failed before.
namespace zero {

// to (numel) = the sum of `num_pieces` pieces, the i-th of which begins at element
// i * stride of `pieces`, in adjacent-pair tree order, ((0+1)+(2+3))+4, as tree_sum() of
// engine/comm adds them up. There is one piece at least; `to` may be one of them.
void queue_tree_sum(float* to, const void* pieces, DType type, int num_pieces,
                    int64_t stride, int64_t numel, cudaStream_t stream);

// to (numel) = from (numel), of another type. To bf16 and fp16: to nearest, ties to even,
// every NaN becomes one (base/dtype.h, base/dtype.h); nothing is read in fp16.
void queue_cast(void* to, DType to_type, const void* from, DType from_type, int64_t numel,
                cudaStream_t stream);

// sum (numel) = left (numel) + right (numel); where one of the two is null it is the
// other, where both are it is zeros. Rounded to bf16 where that is its type, and with
// `rounds`. The sum may be one of the two.
void queue_add(void* sum, DType sum_type, bool rounds, const float* left,
               const void* right, DType right_type, int64_t numel, cudaStream_t stream);

// What decode() of offload/ does. One kernel for each of the stretches.
void queue_decode(const Decoding& decoding, cudaStream_t stream);

// One step of AdamW on a piece, as update() of offload/ makes it. Throws
// std::invalid_argument for what that refuses, before anything is queued.
void queue_adamw(const UpdatePiece& piece, const AdamWRule& rule, cudaStream_t stream);

// Add the squares (kL2), or the magnitudes (kL1), of `values` (numel) to an ExactSum's
// `limbs` (ExactSum::kNumLimbs), leaf by leaf as add_squares() and add_abs() of offload/
// do: `values` begin on a 64-element boundary of their layout. Limbs begin as zeros, and
// are in no normal form: add them to those of an ExactSum. They hold 2^36 elements.
void queue_leaf_sums(int64_t* limbs, const void* values, DType type, NormType norm,
                     int64_t numel, cudaStream_t stream);

// *largest = the largest magnitude of `values` (numel) and of what was there, which is
// not negative; NaN when there is one.
void queue_max_abs(float* largest, const void* values, DType type, int64_t numel,
                   cudaStream_t stream);

// *hash += a number that tells `values` (bytes, a multiple of 2) from others in the same
// place; equal ones at pointers of one alignment give the same.
void queue_hash(uint64_t* hash, const void* values, int64_t bytes, cudaStream_t stream);

}  // namespace zero
