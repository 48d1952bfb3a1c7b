// In the place of engine/device/cuda/launch.cu: kernels run in the threads of streams.
#include "engine/device/cuda/launch.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "engine/device/cuda/cuda_stream.h"
#include "tests/standin/kernel_arrays.h"

namespace zero {
namespace {

constexpr int64_t kNumThreads = 5;  // of a GPU; one after the other

// What a thread does; what it finds goes where all threads' goes.
template <class Kernel>
void run_thread(Kernel kernel, bool takes_groups, int64_t thread) {
  run_share(kernel, takes_groups, thread, kNumThreads);
}

void run_thread(MaxAbs kernel, bool takes_groups, int64_t thread) {
  run_share(kernel, takes_groups, thread, kNumThreads);
  const auto before = std::bit_cast<uint32_t>(*kernel.largest);
  *kernel.largest = std::bit_cast<float>(std::max(before, kernel.found));
}

void run_thread(HashSum kernel, bool takes_groups, int64_t thread) {
  run_share(kernel, takes_groups, thread, kNumThreads);
  *kernel.sum += kernel.found;
}

// In limbs of its own, apart from each other.
void run_thread(LeafSums kernel, bool takes_groups, int64_t thread) {
  int64_t* const total = kernel.limbs;
  int64_t own[ExactSum::kNumLimbs * 2] = {};
  kernel.limbs = own;
  kernel.limb_stride = 2;
  run_share(kernel, takes_groups, thread, kNumThreads);
  for (int i = 0; i < ExactSum::kNumLimbs; ++i) total[i] += own[2 * i];
}

}  // namespace

template <class Kernel>
void launch(const Kernel& kernel, cudaStream_t stream) {
  standin::launch_kernel(kernel, Kernel::kName, stream,
                         [](const auto& reached, bool groups) {
                           for (int64_t thread = 0; thread < kNumThreads; ++thread)
                             run_thread(reached, groups, thread);
                         });
}
template void launch(const TreeSum& kernel, cudaStream_t stream);
template void launch(const Cast& kernel, cudaStream_t stream);
template void launch(const Decode& kernel, cudaStream_t stream);
template void launch(const Sum& kernel, cudaStream_t stream);
template void launch(const AdamW& kernel, cudaStream_t stream);
template void launch(const LeafSums& kernel, cudaStream_t stream);
template void launch(const MaxAbs& kernel, cudaStream_t stream);
template void launch(const HashSum& kernel, cudaStream_t stream);

void launch_at_once(const Decode& kernel, cudaStream_t stream) {
  standin::launch_kernel(kernel, Decode::kName, stream, [](const auto& reached, bool) {
    std::vector<Group<float, 1>> values(reached.numel);
    for (int64_t i = 0; i < reached.numel; ++i) values[i] = reached.template read<1>(i);
    for (int64_t i = 0; i < reached.numel; ++i) reached.to.write(i, values[i]);
  });
}

}  // namespace zero
