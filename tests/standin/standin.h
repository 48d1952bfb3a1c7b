#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/standin/recording.h"

// A GPU made of host memory and threads, which a test can look into and spoil. It answers
// the calls of CUDA's runtime that the engine makes (renamed.h).
//
// There are as many as STANDIN_GPUS says, 1 unless it is set.
//
// Each stream is a thread that runs behind its caller, at random late. Memory of the
// device is no memory for the host: whoever touches it there gets a segmentation fault,
// copies through streams alone reach it, and fresh memory is NaN.
namespace standin {

// New GPUs: what there was must be given back.
void reset();

int num_gpus();
int current_device();  // of this thread
void set_current_device(int device);

void set_chaos(uint64_t seed);  // of streams made from now on; 0: no delays

void set_capability(int major, int minor);   // 9.0 unless said
void set_memory(int64_t bytes);              // 1 GiB unless said
void set_count_error(int error, int count);  // what cudaGetDeviceCount answers
// Has the driver cuStreamWaitValue32, and does it take it? Both unless said.
void set_wait_values(bool has, bool takes);
void set_numa_nodes(std::vector<int> nodes);  // of each GPU; unknown unless said
// The next call of this name, "cudaMemcpyAsync", fails with this error; when it is
// queued, or, asynchronously, when it would have run: then CUDA's every later call does.
void fail_next(const std::string& call, int error);
void fail_when_run(const std::string& call, int error);

// What is not given back.
int num_streams();
int num_events();
int64_t allocated_bytes();
int num_pinned();
int num_gates();  // in memory that cudaHostAlloc gave
int64_t pinned_bytes();

// Copies from or to memory of the host that was not pinned: a GPU would wait for them.
int num_unpinned_copies();

// How often the host waited for the device (cudaStreamSynchronize, cudaEventSynchronize).
int num_host_waits();
// How often a stream was told to wait for the host (cuStreamWaitValue32).
int num_stream_waits();

// --- for kernels (launch.cpp)

// Queue one in a stream of the program's, or in the default one, and what it reads and
// writes. What CUDA would answer.
int launch(CUstream_st* stream, std::vector<Access> accesses,
           std::function<void()> kernel);
// Where a kernel that runs reads and writes what the program calls `memory`. Null unless
// these bytes are the device's, or pinned; then the GPU is broken.
std::byte* reach(const void* memory, int64_t bytes);

// --- for what else runs on it: LibTorch (torch_cuda.cpp), NCCL (nccl.cpp)

// Queue it on a stream (cudaStream_t), as a call of this name, which may fail when it
// would run.
void enqueue(const std::string& call, void* stream, std::function<void()> operation);
// What the next call of this name has to fail with before, or when, it does anything; 0:
// nothing.
int take_failure(const std::string& call);
int take_failure_when_run(const std::string& call);

// Memory of the device that is not counted, and stays when there is a new GPU.
void* allocate_uncounted(int64_t bytes);
// Does it lie in what the program allocated there, not LibTorch?
bool is_of_program(const void* memory);
// Where the host reads and writes what the program calls `memory`. Only for what runs in
// a stream, or once that has been waited for.
std::byte* translate(const void* memory);
// Queue it on a device's default stream, as a kernel.
void launch(int device, std::function<void()> kernel);
// Wait for the default stream; counted where a program would wait as well. False: the GPU
// is broken, and what was queued may not have run.
bool drain(int device, bool is_counted);

}  // namespace standin
