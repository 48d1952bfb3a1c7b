#include "engine/device/cuda/kernels.h"

#include <cassert>

#include "engine/device/cuda/launch.h"

namespace zero {
namespace {

FromArray from_array(const void* array, DType type) {
  if (type == DType::kFp32) return {.fp32 = static_cast<const float*>(array)};
  assert(type == DType::kBf16);
  return {.bf16 = static_cast<const uint16_t*>(array)};
}

ToArray to_array(void* array, DType type) {
  if (type == DType::kFp32) return {.fp32 = static_cast<float*>(array)};
  if (type == DType::kFp16) return {.fp16 = static_cast<uint16_t*>(array)};
  assert(type == DType::kBf16);
  return {.bf16 = static_cast<uint16_t*>(array)};
}

template <class Kernel>
void queue(const Kernel& kernel, cudaStream_t stream) {
  if (kernel.numel > 0) launch(kernel, stream);
}

}  // namespace

void queue_tree_sum(float* to, const void* pieces, DType type, int num_pieces,
                    int64_t stride, int64_t numel, cudaStream_t stream) {
  assert(num_pieces > 0);
  queue(TreeSum{{numel}, to, from_array(pieces, type), num_pieces, stride}, stream);
}

void queue_cast(void* to, DType to_type, const void* from, DType from_type, int64_t numel,
                cudaStream_t stream) {
  queue(Cast{{numel}, to_array(to, to_type), from_array(from, from_type)}, stream);
}

namespace {

// Of elements [begin, end).
Decode part_of(const Decoding& all, int64_t begin, int64_t end) {
  Decode part;
  part.numel = end - begin;
  part.is_fp16 = all.from_type == DType::kFp16;
  if (all.from_type == DType::kInt8)
    part.blocks = static_cast<const Int8Block*>(all.from) + begin / Int8Block::kNumel;
  else
    part.halves = static_cast<const uint16_t*>(all.from) + begin;
  part.to =
      to_array(static_cast<char*>(all.to) + begin * size_of(all.to_type), all.to_type);
  return part;
}

}  // namespace

void queue_decode(const Decoding& all, cudaStream_t stream) {
  in_stretches(
      all, [&](int64_t begin, int64_t end) { queue(part_of(all, begin, end), stream); },
      [&](int64_t begin, int64_t end) {
        launch_at_once(part_of(all, begin, end), stream);
      });
}

void queue_add(void* sum, DType sum_type, bool rounds, const float* left,
               const void* right, DType right_type, int64_t numel, cudaStream_t stream) {
  queue(
      Sum{{numel}, to_array(sum, sum_type), rounds, left, from_array(right, right_type)},
      stream);
}

void queue_adamw(const UpdatePiece& piece, const AdamWRule& rule, cudaStream_t stream) {
  check_piece(piece, AdamWRule::kNumStates);
  queue(AdamW{{piece.numel}, piece, rule}, stream);
}

void queue_leaf_sums(int64_t* limbs, const void* values, DType type, NormType norm,
                     int64_t numel, cudaStream_t stream) {
  queue(LeafSums{from_array(values, type), numel, norm, limbs}, stream);
}

void queue_max_abs(float* largest, const void* values, DType type, int64_t numel,
                   cudaStream_t stream) {
  queue(MaxAbs{{numel}, from_array(values, type), largest}, stream);
}

void queue_hash(uint64_t* hash, const void* values, int64_t bytes, cudaStream_t stream) {
  assert(bytes % 2 == 0);
  queue(HashSum{{bytes / 2}, static_cast<const uint16_t*>(values), hash}, stream);
}

}  // namespace zero
