#pragma once
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/device/cuda/cuda_stream.h"

namespace zero::testing {

// An array in a GPU's memory, `offset` elements behind a boundary of 256 bytes; what lies
// around it must not change.
template <class T>
class GpuArray {
 public:
  explicit GpuArray(const std::vector<T>& values, int64_t offset = 0)
      : before_(kAround + offset), numel_(std::ssize(values)) {
    std::vector<T> all(before_ + numel_ + kAround, kGuard);
    std::copy(values.begin(), values.end(), all.begin() + before_);
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&memory_), bytes()), "a test");
    check_cuda(cudaMemcpyAsync(memory_, all.data(), bytes(), cudaMemcpyDefault, nullptr),
               "a test");
    check_cuda(cudaStreamSynchronize(nullptr), "a test");
  }
  explicit GpuArray(int64_t numel, int64_t offset = 0)
      : GpuArray(std::vector<T>(numel, T{77}), offset) {}
  ~GpuArray() { cudaFree(memory_); }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;

  T* data() const { return memory_ + before_; }

  // What is there when the work in `stream` is done.
  std::vector<T> read(cudaStream_t stream = nullptr) const {
    std::vector<T> all(before_ + numel_ + kAround);
    check_cuda(cudaMemcpyAsync(all.data(), memory_, bytes(), cudaMemcpyDefault, stream),
               "a test");
    check_cuda(cudaStreamSynchronize(stream), "a test");
    for (int64_t i = 0; i < std::ssize(all); ++i) {
      const bool is_ours = i >= before_ && i < before_ + numel_;
      EXPECT_TRUE(is_ours || all[i] == kGuard) << "written beside: " << i - before_;
    }
    return {all.begin() + before_, all.begin() + before_ + numel_};
  }

 private:
  static constexpr int64_t kAround = 256;
  static constexpr T kGuard{123};

  size_t bytes() const { return (before_ + numel_ + kAround) * sizeof(T); }

  const int64_t before_, numel_;
  T* memory_ = nullptr;
};

}  // namespace zero::testing
