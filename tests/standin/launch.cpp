// In the place of engine/device/cuda/launch.cu: kernels run in the threads of streams.
#include "engine/device/cuda/launch.h"

#include <type_traits>

#include "engine/device/cuda/cuda_check.h"
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
void launch_elements(const Kernel& kernel, const char* name, cudaStream_t stream) {
  const int result = standin::launch(stream, [given = kernel] {
    const bool takes_groups = can_take_groups(given);
    Kernel kernel = given;
    if (!reach_arrays(kernel)) return;
    for (int64_t thread = 0; thread < kNumThreads; ++thread)
      run_share(kernel, takes_groups, thread, kNumThreads);
  });
  check_cuda(static_cast<cudaError_t>(result), std::string("launching ") + name);
}

}  // namespace

void launch(const TreeSum& kernel, cudaStream_t stream) {
  launch_elements(kernel, "a sum of pieces", stream);
}

}  // namespace zero
