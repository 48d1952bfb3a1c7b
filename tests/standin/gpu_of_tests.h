#pragma once
#include <torch/torch.h>

#include <cstdlib>

#include "engine/device/gpu.h"

namespace zero::testing {

// Found before LibTorch looks for its part for CUDA, which it does once. One thread: the
// host's numbers, with which all are compared, depend on how many share an operator, and
// on the order of sums over ranks.
inline const int kNumGpus = [] {
  setenv("STANDIN_GPUS", "4", /*overwrite=*/1);  // for as many ranks
  setenv("STANDIN_SUMS", "tree", /*overwrite=*/1);
  at::set_num_threads(1);
  return num_gpus();
}();

}  // namespace zero::testing
