#pragma once

// ZERO_HOST_DEVICE marks the arithmetic of one element that loops on the host and kernels
// on a GPU share, so that it exists once. Forced inline: it takes on the instruction set
// of its caller. Both compilers are told to contract nothing.
#ifdef __CUDACC__
#define ZERO_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define ZERO_HOST_DEVICE [[gnu::always_inline]] inline
#endif
