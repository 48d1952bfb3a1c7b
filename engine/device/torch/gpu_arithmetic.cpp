#include "engine/device/torch/gpu_arithmetic.h"

#include <ATen/Context.h>

#include <cstdlib>
#include <mutex>
#include <optional>

#include "zero/options.h"

namespace zero {
namespace {

struct State {
  at::Context& context = at::globalContext();
  bool is_deterministic = context.deterministicAlgorithms();
  bool only_warns = context.deterministicAlgorithmsWarnOnly();
  bool fills_memory = context.deterministicFillUninitializedMemory();
  bool cudnn_is_deterministic = context.deterministicCuDNN();
  bool cudnn_tries = context.benchmarkCuDNN();
  bool cublas_tf32 = context.allowTF32CuBLAS();
  bool cudnn_tf32 = context.allowTF32CuDNN();

  void apply() const {
    context.setDeterministicAlgorithms(is_deterministic, only_warns);
    context.setDeterministicFillUninitializedMemory(fills_memory);
    context.setDeterministicCuDNN(cudnn_is_deterministic);
    context.setBenchmarkCuDNN(cudnn_tries);
    context.setAllowTF32CuBLAS(cublas_tf32);
    context.setAllowTF32CuDNN(cudnn_tf32);
  }
};

std::mutex mutex;
int num_alive = 0;            // guarded by mutex
std::optional<State> before;  // guarded by mutex; the first one's

}  // namespace

GpuArithmetic::GpuArithmetic(const Options& options) {
  const std::lock_guard lock(mutex);
  if (num_alive == 0) before.emplace();
  State state = *before;
  state.cublas_tf32 = state.cudnn_tf32 = options.tf32;
  if (options.deterministic) {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    state.is_deterministic = state.cudnn_is_deterministic = true;
    state.only_warns = state.cudnn_tries = false;
    state.fills_memory = false;  // nobody reads what nobody wrote
  }
  try {
    state.apply();
  } catch (...) {
    if (num_alive == 0) before->apply();
    throw;
  }
  ++num_alive;
}

GpuArithmetic::~GpuArithmetic() {
  const std::lock_guard lock(mutex);
  if (--num_alive == 0) before->apply();
}

}  // namespace zero
