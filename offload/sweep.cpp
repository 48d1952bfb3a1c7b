#include "offload/sweep.h"

#include <atomic>

#include "offload/kernels.h"
#include "offload/thread_pool.h"

namespace zero {
namespace {

std::atomic<uint32_t> no_bits = 0;

}  // namespace

void sweep(const UpdatePiece& piece, ThreadPool& pool) {
  pool.parallel_for(piece.numel, kUpdateChunkNumel, [&](int64_t begin, int64_t end) {
    fastest_kernels().sweep(part_of(piece, begin, end), no_bits.load());
  });
}

int64_t swept_bytes(const UpdatePiece& piece) {
  return piece.numel * (piece.copy_bf16 ? 30 : 28);
}

}  // namespace zero
