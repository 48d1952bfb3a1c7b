// In the place of engine/device/cuda/launch.cu: kernels run in the threads of streams.
#include "engine/device/cuda/launch.h"

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "engine/device/cuda/cuda_stream.h"
#include "tests/standin/standin.h"

namespace zero {
namespace {

constexpr int64_t kNumThreads = 5;  // of a GPU; one after the other

// The same kernel, with arrays that the host can reach; false if there are others.
template <class Kernel>
bool reach_arrays(Kernel& kernel) {
  bool all = true;
  kernel.arrays([&]<class T>(T*& array, int64_t numel) {
    if (!array) return;
    array = reinterpret_cast<T*>(standin::reach(array, numel * int64_t{sizeof(T)}));
    all = all && array;
  });
  return all;
}

template <class Kernel>
std::vector<standin::Access> accesses_of(Kernel kernel) {
  std::vector<standin::Access> accesses;
  kernel.arrays([&]<class T>(T* array, int64_t numel) {
    if (array)
      accesses.push_back({array, numel * int64_t{sizeof(T)}, !std::is_const_v<T>});
  });
  return accesses;
}

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

template <class Kernel>
void launch_elements(const Kernel& kernel, const char* name, cudaStream_t stream) {
  const int result = standin::launch(stream, accesses_of(kernel), [given = kernel] {
    const bool takes_groups = can_take_groups(given);
    Kernel kernel = given;
    if (!reach_arrays(kernel)) return;
    for (int64_t thread = 0; thread < kNumThreads; ++thread)
      run_thread(kernel, takes_groups, thread);
  });
  check_cuda(static_cast<cudaError_t>(result), std::string("launching ") + name);
}

}  // namespace

void launch(const TreeSum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a sum of pieces", stream);
}
void launch(const Cast& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a cast", stream);
}
void launch(const Sum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a sum", stream);
}
void launch(const AdamW& kernel, cudaStream_t stream) {
  launch_elements(kernel, "AdamW", stream);
}
void launch(const LeafSums& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a norm's sum", stream);
}
void launch(const MaxAbs& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a largest magnitude", stream);
}
void launch(const HashSum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a hash", stream);
}

}  // namespace zero
