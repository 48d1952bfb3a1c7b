// What a kernel does where the GPU, or its memory, is not what it should be.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <variant>

#include "engine/device/cuda/kernels.h"
#include "engine/layers/gpu_passes.h"
#include "offload/exact_sum.h"
#include "tests/engine/kernels_suite.h"
#include "tests/standin/standin.h"
#include "zero/errors.h"

namespace zero::testing::kernels_standin_test {
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

// All of them, over `numel` elements of these arrays.
struct Call {
  std::string name;
  std::function<void(int64_t numel)> queue;
};
std::vector<Call> calls_on(float* memory, int64_t* limbs) {
  const auto of = [](auto queue, auto... given) {
    return [=](int64_t numel) { queue(given..., numel, nullptr); };
  };
  const DType fp32 = DType::kFp32;
  const auto adamw = [=](int64_t numel, cudaStream_t stream) {
    const UpdatePiece piece{.grad = memory,
                            .master = memory + 8,
                            .state = {memory + 16, memory + 24},
                            .numel = numel};
    queue_adamw(piece, std::get<AdamWRule>(make_rule({}, 1e-3, 1, 1)), stream);
  };
  return {{"a sum of pieces", of(queue_tree_sum, memory, memory + 8, fp32, 2, 4)},
          {"a cast", of(queue_cast, memory, fp32, memory + 8, fp32)},
          {"a sum", of(queue_add, memory, fp32, false, memory + 8, memory + 16, fp32)},
          {"AdamW", of(adamw)},
          {"a norm's sum", of(queue_leaf_sums, limbs, memory, fp32, NormType::kL2)},
          {"a norm's sum", of(queue_leaf_sums, limbs, memory, fp32, NormType::kL1)},
          {"a largest magnitude", of(queue_max_abs, memory, memory + 8, fp32)}};
}

TEST_F(KernelsOnABadGpu, ALaunchThatIsRefusedThrows) {
  const GpuArray<float> memory(32);
  const GpuArray<int64_t> limbs(ExactSum::kNumLimbs);
  for (const Call& call : calls_on(memory.data(), limbs.data())) {
    standin::fail_next("cudaLaunchKernel", cudaErrorInvalidValue);
    try {
      call.queue(4);
      ADD_FAILURE() << call.name << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kEnvironment);
      EXPECT_EQ(error.where(), "launching " + call.name);
    }
  }
  EXPECT_EQ(memory.read(), std::vector<float>(32, 77));
  EXPECT_EQ(limbs.read(), std::vector<int64_t>(ExactSum::kNumLimbs, 77));
}

TEST_F(KernelsOnABadGpu, APassThatIsRefusedThrows) {
  const GpuArray<float> memory(32);
  const GpuArray<double> exact(2);
  float* const at = memory.data();
  const auto expect_refused = [](const auto& pass, const std::string& name) {
    standin::fail_next("cudaLaunchKernel", cudaErrorInvalidValue);
    try {
      zero_gpu_passes()->queue(pass, 1, nullptr);
      ADD_FAILURE() << name << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kEnvironment);
      EXPECT_EQ(error.where(), "launching " + name);
    }
  };
  expect_refused(RmsNormPass<float>{at, at + 8, at + 16, nullptr, 8, 0}, "a norm");
  expect_refused(SumBlocksPass<float>{at, at + 8, 1, 8}, "a sum of blocks");
  expect_refused(SwiGluPass<float>{at, at + 8, at + 16}, "SwiGLU");
  expect_refused(GeluPass<float>{at, at + 8}, "GELU");
  expect_refused(SumLossesPass{exact.data(), exact.data() + 1, 1}, "a sum of losses");
  EXPECT_EQ(memory.read(), std::vector<float>(32, 77));
}

TEST_F(KernelsOnABadGpu, ATargetThatIsNoClassBreaksTheGpu) {
  for (const int64_t target : {-1, 7, 8, -2, -100}) {
    standin::reset();
    const GpuArray<int64_t> targets(std::vector<int64_t>{target}, 0);
    const GpuArray<float> row(std::vector<float>(8, 1), 0);
    const GpuArray<double> loss(1);
    zero_gpu_passes()->queue(
        CrossEntropyPass<float>{row.data(), targets.data(), loss.data(), nullptr, 8}, 1,
        nullptr);
    const bool is_fine = target == -1 || target == 7;
    EXPECT_EQ(wait(), is_fine ? cudaSuccess : cudaErrorIllegalAddress) << target;
  }
}

TEST_F(KernelsOnABadGpu, APassMayNotLeaveItsMemory) {
  float* memory = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&memory), 7 * sizeof(float));
  const GpuArray<float> weight(4), y(8);
  zero_gpu_passes()->queue(
      RmsNormPass<float>{memory, weight.data(), y.data(), nullptr, 4, 0}, 2, nullptr);
  EXPECT_EQ(wait(), cudaErrorIllegalAddress);
  cudaFree(memory);
}

TEST_F(KernelsOnABadGpu, NothingIsQueuedForNothing) {
  standin::fail_next("cudaLaunchKernel", cudaErrorInvalidValue);
  const GpuArray<float> memory(32);
  const GpuArray<int64_t> limbs(ExactSum::kNumLimbs);
  for (const Call& call : calls_on(memory.data(), limbs.data()))
    EXPECT_NO_THROW(call.queue(0)) << call.name;
  EXPECT_NO_THROW(zero_gpu_passes()->queue(SwiGluPass<float>{}, 0, nullptr));
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
}  // namespace zero::testing::kernels_standin_test
