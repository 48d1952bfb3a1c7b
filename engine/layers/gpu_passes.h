#pragma once
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "engine/layers/cross_entropy_pass.h"
#include "engine/layers/element_pass.h"
#include "engine/layers/norm_pass.h"
#include "engine/layers/rotate_pass.h"

namespace zero {

// The passes that there are for each type, on a GPU as on the host.
template <template <class... Passes> class List, class T>
using PassesOf = List<RmsNormPass<T>, RmsNormBackwardPass<T>, SumBlocksPass<T>,
                      SwiGluPass<T>, SwiGluBackwardPass<T>, RotatePass<T, Pairs::kHalves>,
                      RotatePass<T, Pairs::kNeighbours>, GeluPass<T>, GeluBackwardPass<T>,
                      CrossEntropyPass<T>, CrossEntropyBackwardPass<T>>;

// Queue a pass over `numel` items in a stream of the calling thread's GPU. Its arrays lie
// in that GPU's memory, begin anywhere, and do not overlap.
template <class Pass>
using QueuePass = void(const Pass& pass, int64_t numel, void* stream);

template <class... Passes>
using QueuePasses = std::tuple<QueuePass<Passes>*...>;

// The passes that a GPU runs: with the bits of the host's, and the same items.
struct GpuPasses {
  using Queues = decltype(std::tuple_cat(
      PassesOf<QueuePasses, float>(), PassesOf<QueuePasses, Bf16>(),
      PassesOf<QueuePasses, Fp16>(), QueuePasses<SumLossesPass>()));
  Queues queues;

  // Throws Error(kEnvironment) when the GPU refuses it, or has failed before.
  template <class Pass>
  void queue(const Pass& pass, int64_t numel, void* stream) const {
    std::get<QueuePass<Pass>*>(queues)(pass, numel, stream);
  }

  // Is it one of them?
  template <class Pass>
  static constexpr bool kHave =
      []<class... Queue>(std::type_identity<std::tuple<Queue...>>) {
        return (std::is_same_v<Queue, QueuePass<Pass>*> || ...);
      }(std::type_identity<Queues>());
};

}  // namespace zero

// What the library for GPUs offers for it.
extern "C" const zero::GpuPasses* zero_gpu_passes();
