#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

#include "engine/layers/gpu_passes.h"
#include "engine/layers/linear_pass.h"

namespace zero {

// What is done to a part of a pass, on one thread.
template <class Pass>
using RunPass = void(const Pass& pass, int64_t begin, int64_t end);

template <class... Passes>
using RunPasses = std::tuple<RunPass<Passes>*...>;

// All passes of all types, compiled for one instruction set.
struct LayerKernels {
  using Runs = decltype(std::tuple_cat(
      PassesOf<RunPasses, float>(), PassesOf<RunPasses, Bf16>(),
      PassesOf<RunPasses, Fp16>(), PassesOf<RunPasses, double>(),
      RunPasses<SumLossesPass, LinearPass, TransposedLinearPass>()));
  const char* isa;
  Runs runs;

  template <class Pass>
  void run(const Pass& pass, int64_t begin, int64_t end) const {
    std::get<RunPass<Pass>*>(runs)(pass, begin, end);
  }
};

// Those of an instruction set whose loop is Set::run<Pass>.
template <class Set>
LayerKernels layer_kernels_of(const char* isa) {
  const auto all = []<class... Passes>(std::type_identity<RunPasses<Passes...>>) {
    return LayerKernels::Runs{Set::template run<Passes>...};
  };
  return {isa, all(std::type_identity<LayerKernels::Runs>())};
}

// For the instructions that every CPU of this kind has.
LayerKernels baseline_layer_kernels();

// The versions that this CPU can run, the plain one first, the fastest last. All give the
// same bits. The build picks the file that lists them.
std::vector<LayerKernels> layer_kernels();

inline const LayerKernels& fastest_layer_kernels() {
  static const LayerKernels fastest = layer_kernels().back();
  return fastest;
}

}  // namespace zero
