#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "engine/device/device.h"
#include "engine/step/addition.h"
#include "engine/step/gradient_norm.h"
#include "offload/update.h"

namespace zero {

// What a step does to gradients and shards in a GPU's memory, queued on its streams: with
// the bits of the host's loops.
class ShardKernels {
 public:
  virtual ~ShardKernels() = default;

  // As add_up() of all `numel` elements; a norm counts towards take_norm(), whichever it
  // is. One stream at a time.
  virtual void add_up(const Addition& addition, int64_t numel, Stream& stream) = 0;
  // Count `values` (numel, kFp32 or kBf16) towards it: they begin on a 64-element
  // boundary of their layout.
  virtual void add_to_norm(const void* values, DType type, int64_t numel,
                           Stream& stream) = 0;
  // The norm of all that was added since the last time. Waits for the stream.
  virtual GradientNorm take_norm(Stream& stream) = 0;

  // As update(). Rules are AdamW's, or it throws std::invalid_argument.
  virtual void update(std::span<const Update> updates, Stream& stream) = 0;
  // Where they tell it of this parameter; and of all of them, so far. Waits for the
  // stream.
  virtual Movement* movement(int param) = 0;
  virtual std::vector<Movement> read_movements(Stream& stream) = 0;

  // copy (numel) = values (numel) in bf16 or fp16.
  virtual void round(uint16_t* copy, DType type, const float* values, int64_t numel,
                     Stream& stream) = 0;
};

// Of a GPU, which outlives it, and takes kGpuNormBytes of its memory, and kMovementBytes
// for each of so many parameters.
std::unique_ptr<ShardKernels> make_shard_kernels(Device& gpu, NormType norm,
                                                 int64_t num_movements);

}  // namespace zero

// What the library for GPUs offers for it; the caller owns the result.
extern "C" zero::ShardKernels* zero_make_shard_kernels(zero::Device& gpu,
                                                       zero::NormType norm,
                                                       int64_t num_movements);
