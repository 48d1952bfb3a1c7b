// What a kernel does where the GPU, or its memory, is not what it should be.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include "engine/device/cuda/kernels.h"
#include "engine/errors.h"
#include "tests/engine/kernels_suite.h"
#include "tests/standin/standin.h"

namespace zero::testing {
namespace {

class KernelsOnABadGpu : public ::testing::Test {
 protected:
  KernelsOnABadGpu() { standin::reset(); }
  ~KernelsOnABadGpu() override { standin::reset(); }

  void sum_to(float* to, const float* pieces) {
    queue_tree_sum(to, pieces, DType::kFp32, 2, 4, 4, nullptr);
  }
  cudaError_t wait() { return cudaStreamSynchronize(nullptr); }
};

TEST_F(KernelsOnABadGpu, ALaunchThatIsRefusedThrows) {
  const GpuArray<float> to(4), pieces(8);
  standin::fail_next("cudaLaunchKernel", cudaErrorInvalidValue);
  try {
    sum_to(to.data(), pieces.data());
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_EQ(error.where(), "launching a sum of pieces");
  }
  EXPECT_EQ(to.read(), std::vector<float>(4, 77));
}

TEST_F(KernelsOnABadGpu, NothingIsQueuedForNothing) {
  standin::fail_next("cudaLaunchKernel", cudaErrorInvalidValue);
  EXPECT_NO_THROW(queue_tree_sum(nullptr, nullptr, DType::kFp32, 2, 0, 0, nullptr));
}

TEST_F(KernelsOnABadGpu, AKernelThatFailsBreaksTheGpu) {
  const GpuArray<float> to(4), pieces(8);
  standin::fail_when_run("kernel", cudaErrorIllegalAddress);
  sum_to(to.data(), pieces.data());
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
}

TEST_F(KernelsOnABadGpu, MemoryOfTheHostMustBePinned) {
  const GpuArray<float> to(4);
  std::vector<float> pieces = {1, 2, 3, 4, 5, 6, 7, 8};
  cudaHostRegister(pieces.data(), 32, cudaHostRegisterPortable);
  sum_to(to.data(), pieces.data());
  EXPECT_EQ(to.read(), (std::vector<float>{6, 8, 10, 12}));
  cudaHostUnregister(pieces.data());
  sum_to(to.data(), pieces.data());
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
}

TEST_F(KernelsOnABadGpu, AnArrayMayNotLeaveItsMemory) {
  const GpuArray<float> to(4);
  float* memory = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&memory), 7 * sizeof(float));
  sum_to(to.data(), memory);
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
  cudaFree(memory);
}

}  // namespace
}  // namespace zero::testing
