#pragma once

#include <cstdint>

// On a CPU, LibTorch keeps each kernel of oneDNN that it has made, by the shapes of its
// arguments, in two caches of 1024 kernels each: oneDNN's own, and one of its binding. A
// model whose shapes are ever new, as those of a mixture of experts, fills both.
namespace zero::launcher {

// Let each hold kNumKeptKernels, unless their variables are set. Before the first
// arithmetic and the first thread.
void bound_kernel_caches();

constexpr int64_t kNumKeptKernels = 128;

// What kernels take at most, of arithmetic in elements of this size; 0 where LibTorch
// makes none for it. Where all passes have the same shapes there are few; text that grows
// by a token fills the cache.
int64_t kernel_cache_bytes(int64_t element_bytes, bool has_growing_shapes);

}  // namespace zero::launcher
