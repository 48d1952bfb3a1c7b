// libzero_cuda.so of the stand-in, whose GPU LibTorch computes with (torch_cuda.cpp).
#include "engine/device/cuda/cuda_device.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/gpu.h"
#include "tests/standin/recorded_device.h"
#include "tests/standin/recording.h"
#include "tests/standin/standin.h"

namespace {

std::unique_ptr<zero::Device> make_device(int index, const zero::GpuOptions& options) {
  standin::set_chaos(options.chaos_seed);
  auto gpu = zero::make_cuda_device(index, options);
  return standin::is_recording() ? standin::recorded(std::move(gpu)) : std::move(gpu);
}

double torch_fraction = -1;  // of the memory, that LibTorch may take; -1: nobody said
int num_torch_releases = 0;

}  // namespace

void zero_limit_torch_memory(int, double fraction) { torch_fraction = fraction; }

void zero_let_torch_memory_grow() {}

void zero_release_torch_memory() { ++num_torch_releases; }

extern "C" {

const zero::GpuLibrary* zero_gpu_library() {
  static const zero::GpuLibrary library{&zero::count_cuda_devices,
                                        &zero::identity_of_cuda_device,
                                        &zero::memory_of_cuda_device,
                                        &zero::numa_node_of_cuda_device,
                                        &zero::describe_cuda_device,
                                        &make_device,
                                        &zero::kNvtxRanges};
  return &library;
}

// What standin.h says, for a program that has loaded this library.
void standin_reset() { standin::reset(); }
int standin_num_host_waits() { return standin::num_host_waits(); }
int standin_num_stream_waits() { return standin::num_stream_waits(); }
int standin_num_unpinned_copies() { return standin::num_unpinned_copies(); }
int standin_num_pinned() { return standin::num_pinned(); }
int64_t standin_pinned_bytes() { return standin::pinned_bytes(); }
void standin_set_numa_nodes(const std::vector<int>& nodes) {
  standin::set_numa_nodes(nodes);
}
void standin_set_wait_values(bool has) { standin::set_wait_values(has, /*takes=*/true); }
void standin_fail_next(const char* call, int error) { standin::fail_next(call, error); }
void standin_fail_when_run(const char* call, int error) {
  standin::fail_when_run(call, error);
}
double standin_torch_fraction() { return torch_fraction; }
int standin_num_torch_releases() { return num_torch_releases; }
void standin_start_recording() { standin::start_recording(); }
void standin_mark_recording() { standin::mark_recording(); }
void standin_finish_recording(standin::Recording* recording) {
  *recording = standin::finish_recording();
}
void standin_name_memory(const void* memory, int64_t bytes, const std::string& name) {
  standin::name_memory(memory, bytes, name);
}
void standin_note_access(const void* memory, int64_t bytes, bool writes) {
  standin::note_access(memory, bytes, writes);
}
int standin_num_left() {
  return standin::num_streams() + standin::num_events() + standin::num_pinned() +
         standin::num_gates() + static_cast<int>(standin::allocated_bytes());
}
}
