#pragma once
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>
#include <vector>

#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/groups.h"
#include "tests/standin/standin.h"

namespace standin {

// The same kernel, with arrays that the host can reach; false if there are others.
template <class Kernel>
bool reach_arrays(Kernel& kernel) {
  bool all = true;
  kernel.arrays([&]<class T>(T*& array, int64_t numel) {
    if (!array) return;
    array = reinterpret_cast<T*>(reach(array, numel * int64_t{sizeof(T)}));
    all = all && array;
  });
  return all;
}

template <class Kernel>
std::vector<Access> accesses_of(Kernel kernel) {
  std::vector<Access> accesses;
  kernel.arrays([&]<class T>(T* array, int64_t numel) {
    if (array)
      accesses.push_back({array, numel * int64_t{sizeof(T)}, !std::is_const_v<T>});
  });
  return accesses;
}

// Queue run(kernel, takes_groups), as a GPU would the kernel.
template <class Kernel, class Run>
void launch_kernel(const Kernel& kernel, const std::string& name, cudaStream_t stream,
                   const Run& run) {
  const int result = launch(stream, accesses_of(kernel), [given = kernel, run] {
    const bool takes_groups = zero::can_take_groups(given);
    Kernel kernel = given;
    if (reach_arrays(kernel)) run(kernel, takes_groups);
  });
  zero::check_cuda(static_cast<cudaError_t>(result), "launching " + name);
}

}  // namespace standin
