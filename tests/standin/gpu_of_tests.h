#pragma once
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "zero/gpu.h"

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

// A function of the stand-in's library, which is loaded by now.
template <typename Function>
Function* of_standin(const char* name) {
  void* const library = dlopen("libzero_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  void* const function = library ? dlsym(library, name) : nullptr;
  if (!function) throw std::runtime_error(std::string("no ") + name);
  return reinterpret_cast<Function*>(function);
}

inline int ask_standin(const char* name) { return of_standin<int()>(name)(); }

}  // namespace zero::testing
