#pragma once
#include <cuda_runtime_api.h>

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/device/device.h"

namespace zero {

// What the streams of one GPU share: CUDA's events, used again and again, and the first
// failure of host work that a stream waited for. From any thread.
class CudaContext {
 public:
  explicit CudaContext(int index) : index_(index) {}
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

  // CUDA calls of the calling thread mean this GPU from now on.
  void use() const;

  cudaEvent_t take_event();
  void give_back(cudaEvent_t event);

  void fail(std::exception_ptr failure);
  void throw_failure() const;  // if there is one

 private:
  const int index_;
  mutable std::mutex mutex_;
  std::vector<cudaEvent_t> free_events_;  // guarded by mutex_
  std::exception_ptr failure_;            // guarded by mutex_
};

// A queue of the GPU.
class CudaStream final : public Stream {
 public:
  // The default one, that LibTorch uses, or one that runs beside it.
  enum class Kind { kDefault, kOwn };

  CudaStream(std::shared_ptr<CudaContext> context, std::string name, Kind kind);
  ~CudaStream() override;  // waits for what is queued
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  const std::string& name() const override { return name_; }
  void copy(void* to, const void* from, int64_t bytes) override;
  void set_bytes(void* to, int value, int64_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;

 private:
  const std::shared_ptr<CudaContext> context_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace zero
