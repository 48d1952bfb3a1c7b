#pragma once
#include <cstdint>
#include <string>

// A GPU made of host memory and threads, which a test can look into and spoil. It answers
// the calls of CUDA's runtime that the engine makes (renamed.h).
//
// Each stream is a thread that runs behind its caller, at random late. Memory of the
// device is no memory for the host: whoever touches it there gets a segmentation fault,
// copies through streams alone reach it, and fresh memory is NaN.
namespace standin {

// A new GPU: what there was must be given back.
void reset();

void set_chaos(uint64_t seed);  // of streams made from now on; 0: no delays

// From now on the host may compute with the GPU's memory: its default stream runs at once
// in the calling thread, as LibTorch's functions for CPUs do, and memory can be touched.
void let_host_compute();
void set_capability(int major, int minor);   // 9.0 unless said
void set_memory(int64_t bytes);              // 1 GiB unless said
void set_count_error(int error, int count);  // what cudaGetDeviceCount answers
// The next call of this name, "cudaMemcpyAsync", fails with this error; when it is
// queued, or, asynchronously, when it would have run: then CUDA's every later call does.
void fail_next(const std::string& call, int error);
void fail_when_run(const std::string& call, int error);

// What is not given back.
int num_streams();
int num_events();
int64_t allocated_bytes();
int num_pinned();

// Copies from or to memory of the host that was not pinned: a GPU would wait for them.
int num_unpinned_copies();

// How often the host waited for the device (cudaStreamSynchronize, cudaEventSynchronize).
int num_host_waits();

}  // namespace standin
