#pragma once
#include <cuda_runtime_api.h>

#include <string>

#include "zero/errors.h"

namespace zero {

// The one place that reads what CUDA returns. Throws Error(kEnvironment) that says what
// was being done.
inline void check_cuda(cudaError_t result, const std::string& doing) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // told once: later calls have their own results
  throw Error(ExitCode::kEnvironment,
              "CUDA: " + std::string(cudaGetErrorString(result)) + " (" +
                  cudaGetErrorName(result) + ")",
              doing,
              "nvidia-smi and dmesg tell more of the GPU; --device cpu does without");
}

}  // namespace zero
