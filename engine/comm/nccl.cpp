#include "engine/comm/collectives.h"
#include "engine/device/gpu.h"

namespace zero {
namespace {

auto* find_make() {
  return find_in_gpu_library<decltype(zero_make_nccl_collectives)>(
      "zero_make_nccl_collectives");
}

}  // namespace

bool has_nccl() { return find_make() != nullptr; }

bool nccl_shares_gpus() {
  auto* const ask =
      find_in_gpu_library<decltype(zero_nccl_shares_gpus)>("zero_nccl_shares_gpus");
  return ask && ask();
}

std::unique_ptr<Collectives> make_nccl_collectives(Ranks& ranks, Device& gpu,
                                                   void* exchange,
                                                   int64_t exchange_bytes) {
  return std::unique_ptr<Collectives>(find_make()(ranks, gpu, exchange, exchange_bytes));
}

}  // namespace zero
