#include "engine/device/cuda/stream_gate.h"

#include <atomic>

#include "engine/device/cuda/cuda_stream.h"

namespace zero {

// The driver's, which is there where CUDA works: the program is not linked with it.
StreamGate::WaitValue* StreamGate::find_wait_value() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuStreamWaitValue32", &found, /*cudaVersion=*/12000, cudaEnableDefault, &result);
  if (error != cudaSuccess) cudaGetLastError();
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess
             ? reinterpret_cast<WaitValue*>(found)
             : nullptr;
}

CUresult StreamGate::queue_wait_for(cudaStream_t stream, int64_t value) const {
  return wait_value_(stream, reinterpret_cast<CUdeviceptr>(number_),
                     static_cast<uint32_t>(value), CU_STREAM_WAIT_VALUE_GEQ);
}

// A wait that is over as it begins shows whether the GPU has them.
std::shared_ptr<StreamGate> StreamGate::make(cudaStream_t stream) {
  WaitValue* const wait_value = find_wait_value();
  if (!wait_value) return nullptr;
  void* memory = nullptr;  // of both, at one address
  if (cudaHostAlloc(&memory, sizeof(uint32_t),
                    cudaHostAllocMapped | cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  auto* const number = static_cast<uint32_t*>(memory);
  *number = 0;
  const std::shared_ptr<StreamGate> gate(new StreamGate(wait_value, number));
  return gate->queue_wait_for(stream, 0) == CUDA_SUCCESS ? gate : nullptr;
}

StreamGate::~StreamGate() { cudaFreeHost(number_); }

int64_t StreamGate::queue_wait(cudaStream_t stream, const std::string& doing) {
  const std::lock_guard lock(queueing_);
  const CUresult result = queue_wait_for(stream, last_ + 1);
  check_cuda(static_cast<cudaError_t>(result), doing);  // they have the same numbers
  return ++last_;
}

void StreamGate::open(int64_t wait) {
  const std::lock_guard lock(mutex_);
  early_.insert(wait);
  while (early_.erase(passed_ + 1) > 0) ++passed_;
  // Behind what the host has written before.
  std::atomic_ref(*number_).store(static_cast<uint32_t>(passed_),
                                  std::memory_order_release);
}

}  // namespace zero
