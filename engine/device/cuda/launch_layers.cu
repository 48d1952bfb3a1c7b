#include <cuda_runtime_api.h>

#include <string>

#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/layer_kernels.h"

namespace zero {
namespace {

constexpr int kTermBytes = kRowSpan * sizeof(float);  // of a warp

// The block that the calling thread belongs to.
struct GpuBlock {
  int64_t index;
  int num_threads;
  float *terms, *folds;

  template <class Work>
  __device__ void each_thread(const Work& work) {
    work(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  template <class Term, class Join>
  __device__ void fold_warps(const Term& term, const Join& join) {
    float fold = term(static_cast<int>(threadIdx.x));
    for (int half = kRowLanes / 2; half > 0; half /= 2)
      fold = join(fold, __shfl_down_sync(~0u, fold, half));
    if (threadIdx.x % kRowLanes == 0) folds[threadIdx.x / kRowLanes] = fold;
    __syncthreads();
  }
  __device__ void fail() { __trap(); }
};

template <int kNum, class Kernel>
__global__ void __launch_bounds__(kMaxThreads) run_block(Kernel kernel) {
  extern __shared__ __align__(64) float terms[];
  __shared__ float folds[kMaxWarps];
  GpuBlock block{blockIdx.x, static_cast<int>(blockDim.x), terms, folds};
  kernel.template run<kNum>(block);
}

struct GpuLauncher {
  template <class Kernel>
  static void launch(const Kernel& kernel, void* stream) {
    if (can_take_groups(kernel))
      launch_by<Kernel::kGroup>(kernel, static_cast<cudaStream_t>(stream));
    else
      launch_by<1>(kernel, static_cast<cudaStream_t>(stream));
    check_cuda(cudaGetLastError(), std::string("launching ") + Kernel::kName);
  }

 private:
  template <int kNum, class Kernel>
  static void launch_by(const Kernel& kernel, cudaStream_t stream) {
    const int threads = kernel.num_threads(kNum);
    const int bytes = Kernel::kSumsRows ? threads / kRowLanes * kTermBytes : 0;
    const auto blocks = static_cast<unsigned>(kernel.num_blocks(kNum));
    run_block<kNum><<<blocks, threads, bytes, stream>>>(kernel);
  }
};

}  // namespace
}  // namespace zero

const zero::GpuPasses* zero_gpu_passes() {
  static const zero::GpuPasses passes = zero::gpu_passes_of<zero::GpuLauncher>();
  return &passes;
}
