// CUDA's runtime, as far as the engine knows it, on the host.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/device/host_device.h"
#include "tests/standin/recording.h"
#include "tests/standin/standin.h"

// What the handles point to.
struct CUstream_st {
  int device = 0;
  std::shared_ptr<zero::HostStream> queue;
};
struct CUevent_st {
  zero::Event point;
  bool has_time = false;
  std::shared_ptr<const zero::Stamp> stamp;  // of its latest record, if it has times
};

namespace standin {
namespace {

// One block: the address that the program knows, which nobody may touch, and the same
// memory at an address of our own.
struct Block {
  std::byte* ours = nullptr;
  int64_t bytes = 0, mapped_bytes = 0;
};

struct Gpu {
  std::mutex mutex;
  uint64_t chaos_seed = 0;
  std::map<int, std::shared_ptr<std::mutex>> turns;  // of each device's host functions
  int major = 9, minor = 0;
  int64_t memory_bytes = 1 << 30;
  cudaError_t count_error = cudaSuccess;
  int count = num_gpus();
  std::vector<int> nodes;
  std::map<std::byte*, Block> blocks;
  std::map<std::string, cudaError_t> fail_next, fail_when_run;
  std::set<cudaStream_t> streams;
  std::map<const std::byte*, int64_t> pinned;  // their bytes
  bool has_wait_values = true, takes_wait_values = true;
  int num_events = 0, num_gates = 0, num_host_waits = 0, num_unpinned_copies = 0;
  std::atomic<int> num_stream_waits{0};
  std::map<int, std::shared_ptr<zero::HostStream>> default_queues;  // by device
  cudaError_t broken = cudaSuccess;  // for good, as after a kernel's error
};

using Blocks = std::map<std::byte*, Block>;

std::unique_ptr<Gpu> current = std::make_unique<Gpu>();
Blocks uncounted;  // guarded by uncounted_mutex
std::mutex uncounted_mutex;

Gpu& gpu() { return *current; }

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device_of_thread = 0;

cudaError_t answer(cudaError_t result) {
  if (result != cudaSuccess) last_error = result;
  return result;
}

// What this call has to fail with before it does anything.
cudaError_t begin(const char* call) {
  const std::lock_guard lock(gpu().mutex);
  if (gpu().broken != cudaSuccess) return gpu().broken;
  const auto planned = gpu().fail_next.extract(call);
  return planned.empty() ? cudaSuccess : planned.mapped();
}

// Null if it lies in none of the blocks.
std::byte* find_in(const Blocks& blocks, std::byte* address) {
  auto next = blocks.upper_bound(address);
  if (next == blocks.begin()) return nullptr;
  const auto& [theirs, block] = *--next;
  return address < theirs + block.mapped_bytes ? block.ours + (address - theirs)
                                               : nullptr;
}

// Memory at two addresses: nobody may touch it at the first.
std::pair<std::byte*, Block> make_block(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t mapped = (bytes + page - 1) / page * page;
  const int file = memfd_create("standin", 0);
  if (file < 0 || ftruncate(file, mapped) != 0) return {};
  void* const theirs = mmap(nullptr, mapped, PROT_NONE, MAP_SHARED, file, 0);
  void* const ours = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (theirs == MAP_FAILED || ours == MAP_FAILED) return {};
  std::memset(ours, zero::Device::kNanByte, mapped);
  return {static_cast<std::byte*>(theirs),
          {static_cast<std::byte*>(ours), bytes, mapped}};
}

bool holds(const Blocks& blocks, const std::byte* address, int64_t bytes) {
  const auto next = blocks.upper_bound(const_cast<std::byte*>(address));
  if (next == blocks.begin()) return false;
  const auto& [theirs, inside] = *std::prev(next);
  return address + bytes <= theirs + inside.bytes;
}

// Of the device, or pinned.
bool is_reachable(const void* memory, int64_t bytes) {
  const auto* address = static_cast<const std::byte*>(memory);
  {
    const std::lock_guard lock(uncounted_mutex);
    if (holds(uncounted, address, bytes)) return true;
  }
  const std::lock_guard lock(gpu().mutex);
  if (holds(gpu().blocks, address, bytes)) return true;
  const auto next = gpu().pinned.upper_bound(address);
  if (next == gpu().pinned.begin()) return false;
  const auto& [begin, pinned_bytes] = *std::prev(next);
  return address + bytes <= begin + pinned_bytes;
}

zero::HostDeviceOptions stream_options() {
  zero::HostDeviceOptions options;
  options.chaos_seed = gpu().chaos_seed;
  return options;
}

// Kept by whoever uses it: another thread may give it back.
using Queue = std::shared_ptr<zero::HostStream>;

Queue default_queue(int device) {
  const std::lock_guard lock(gpu().mutex);
  Queue& queue = gpu().default_queues[device];
  if (!queue) {
    const std::string name = "default of " + std::to_string(device);
    queue = zero::make_worker_stream(name, stream_options());
  }
  return queue;
}

Queue queue_of(cudaStream_t stream) {
  return stream ? stream->queue : default_queue(device_of_thread);
}

// A GPU runs functions of the host one after the other, in any order.
std::shared_ptr<std::mutex> turn_of_host_functions(int device) {
  const std::lock_guard lock(gpu().mutex);
  auto& turn = gpu().turns[device];
  if (!turn) turn = std::make_shared<std::mutex>();
  return turn;
}

// Runs unless the GPU is broken; a planned failure breaks it.
void add_to(const Queue& queue, const std::string& call,
            std::function<void()> operation) {
  queue->enqueue([call, operation = std::move(operation)] {
    {
      const std::lock_guard lock(gpu().mutex);
      const auto planned = gpu().fail_when_run.extract(call);
      if (!planned.empty()) gpu().broken = planned.mapped();
      if (gpu().broken != cudaSuccess) return;
    }
    operation();
  });
}

std::vector<Queue> queues_of(int device) {
  std::vector<Queue> queues{default_queue(device)};
  const std::lock_guard lock(gpu().mutex);
  for (const cudaStream_t stream : gpu().streams)
    if (stream->device == device) queues.push_back(stream->queue);
  return queues;
}

cudaError_t broken() {
  const std::lock_guard lock(gpu().mutex);
  return gpu().broken;
}

// cuStreamWaitValue32: until the number there has come as far as `value`, however often
// it began anew.
CUresult wait_for_value(CUstream stream, CUdeviceptr address, cuuint32_t value,
                        unsigned flags) {
  if (const cudaError_t error = begin("cuStreamWaitValue32"))
    return static_cast<CUresult>(error);
  if (!gpu().takes_wait_values || flags != CU_STREAM_WAIT_VALUE_GEQ)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (value == 0) return CUDA_SUCCESS;  // every number has come to it
  note_wait(lane_of(stream));
  ++gpu().num_stream_waits;
  const std::atomic_ref<uint32_t> number(*reinterpret_cast<uint32_t*>(address));
  add_to(queue_of(stream), "cuStreamWaitValue32", [=] {
    while (broken() == cudaSuccess &&
           static_cast<int32_t>(number.load(std::memory_order_acquire) - value) < 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
  return CUDA_SUCCESS;
}

}  // namespace

void reset() {
  assert(gpu().pinned.empty() && gpu().streams.empty() && gpu().num_events == 0 &&
         gpu().blocks.empty());
  current = std::make_unique<Gpu>();
}

void set_chaos(uint64_t seed) {
  const std::lock_guard lock(gpu().mutex);
  gpu().chaos_seed = seed;
}

void set_capability(int major, int minor) {
  gpu().major = major;
  gpu().minor = minor;
}
void set_memory(int64_t bytes) { gpu().memory_bytes = bytes; }
void set_wait_values(bool has, bool takes) {
  gpu().has_wait_values = has;
  gpu().takes_wait_values = takes;
}
void set_numa_nodes(std::vector<int> nodes) { gpu().nodes = std::move(nodes); }
void set_count_error(int error, int count) {
  gpu().count_error = static_cast<cudaError_t>(error);
  gpu().count = count;
}
void fail_next(const std::string& call, int error) {
  const std::lock_guard lock(gpu().mutex);
  gpu().fail_next[call] = static_cast<cudaError_t>(error);
}
void fail_when_run(const std::string& call, int error) {
  const std::lock_guard lock(gpu().mutex);
  gpu().fail_when_run[call] = static_cast<cudaError_t>(error);
}

int num_streams() { return static_cast<int>(gpu().streams.size()); }
int num_events() { return gpu().num_events; }
int num_pinned() { return static_cast<int>(gpu().pinned.size()); }
int num_gates() {
  const std::lock_guard lock(gpu().mutex);
  return gpu().num_gates;
}
int64_t pinned_bytes() {
  const std::lock_guard lock(gpu().mutex);
  int64_t total = 0;
  for (const auto& [memory, bytes] : gpu().pinned) total += bytes;
  return total;
}

int num_unpinned_copies() { return gpu().num_unpinned_copies; }
int num_host_waits() { return gpu().num_host_waits; }
int num_stream_waits() { return gpu().num_stream_waits; }
int64_t allocated_bytes() {
  const std::lock_guard lock(gpu().mutex);
  int64_t bytes = 0;
  for (const auto& [address, block] : gpu().blocks) bytes += block.bytes;
  return bytes;
}

void* allocate_uncounted(int64_t bytes) {
  const auto [address, block] = make_block(bytes);
  const std::lock_guard lock(uncounted_mutex);
  uncounted[address] = block;
  return address;
}

bool is_of_program(const void* memory) {
  const std::lock_guard lock(gpu().mutex);
  return holds(gpu().blocks, static_cast<const std::byte*>(memory), 1);
}

std::byte* translate(const void* memory) {
  auto* address = static_cast<std::byte*>(const_cast<void*>(memory));
  {
    const std::lock_guard lock(gpu().mutex);
    if (std::byte* const found = find_in(gpu().blocks, address)) return found;
  }
  const std::lock_guard lock(uncounted_mutex);
  std::byte* const found = find_in(uncounted, address);
  return found ? found : address;
}

int launch(CUstream_st* stream, std::vector<Access> accesses,
           std::function<void()> kernel) {
  if (const cudaError_t error = begin("cudaLaunchKernel")) return answer(error);
  note_work(lane_of(stream), std::move(accesses));
  add_to(queue_of(stream), "kernel", std::move(kernel));
  return cudaSuccess;
}

std::byte* reach(const void* memory, int64_t bytes) {
  if (is_reachable(memory, bytes)) return translate(memory);
  const std::lock_guard lock(gpu().mutex);
  gpu().broken = cudaErrorIllegalAddress;
  return nullptr;
}

void enqueue(const std::string& call, void* stream, std::function<void()> operation) {
  add_to(queue_of(static_cast<cudaStream_t>(stream)), call, std::move(operation));
}

int take_failure(const std::string& call) { return begin(call.c_str()); }

int take_failure_when_run(const std::string& call) {
  const std::lock_guard lock(gpu().mutex);
  const auto planned = gpu().fail_when_run.extract(call);
  return planned.empty() ? cudaSuccess : planned.mapped();
}

void launch(int device, std::function<void()> kernel) {
  add_to(default_queue(device), "kernel", std::move(kernel));
}

bool drain(int device, bool is_counted) {
  if (is_counted) {
    const std::lock_guard lock(gpu().mutex);
    ++gpu().num_host_waits;
  }
  if (is_counted) note_host_wait_for_lane(lane_of(nullptr));
  default_queue(device)->synchronize();
  return broken() == cudaSuccess;
}

int num_gpus() {
  const char* const count = std::getenv("STANDIN_GPUS");
  return count ? std::stoi(count) : 1;
}
int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

}  // namespace standin

using standin::answer;
using standin::begin;
using standin::gpu;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpu().count;
  return answer(gpu().count_error);
}

cudaError_t cudaSetDevice(int device) {
  if (const cudaError_t error = begin("cudaSetDevice")) return answer(error);
  if (device >= gpu().count) return answer(cudaErrorInvalidDevice);
  standin::device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[15] = static_cast<char>(device + 1);
  std::strcpy(properties->name, "the stand-in");
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = gpu().major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = gpu().minor;
      return cudaSuccess;
    case cudaDevAttrHostNumaId:
      *value = device < std::ssize(gpu().nodes) ? gpu().nodes[device] : -1;
      return cudaSuccess;
    default:
      return answer(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12020;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaError";
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                          : "a failure that the test planned";
}

cudaError_t cudaGetLastError() { return std::exchange(standin::last_error, cudaSuccess); }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (const cudaError_t error = begin("cudaMalloc")) return answer(error);
  if (standin::allocated_bytes() + static_cast<int64_t>(bytes) > gpu().memory_bytes)
    return answer(cudaErrorMemoryAllocation);
  const auto [address, block] = standin::make_block(static_cast<int64_t>(bytes));
  if (!address) return answer(cudaErrorMemoryAllocation);
  const std::lock_guard lock(gpu().mutex);
  gpu().blocks[address] = block;
  *memory = address;
  return cudaSuccess;
}

// Waits for all of the device's work, as CUDA does.
cudaError_t cudaFree(void* memory) {
  for (const standin::Queue& queue : standin::queues_of(standin::device_of_thread))
    queue->synchronize();
  const std::lock_guard lock(gpu().mutex);
  const auto block = gpu().blocks.extract(static_cast<std::byte*>(memory));
  if (block.empty()) return answer(cudaErrorInvalidValue);
  munmap(block.key(), block.mapped().mapped_bytes);
  munmap(block.mapped().ours, block.mapped().mapped_bytes);
  return answer(gpu().broken);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = gpu().memory_bytes;
  *free_bytes = gpu().memory_bytes - standin::allocated_bytes();
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  if (const cudaError_t error = begin("cudaHostRegister")) return answer(error);
  const std::lock_guard lock(gpu().mutex);
  const bool is_new =
      gpu()
          .pinned.insert({static_cast<std::byte*>(memory), static_cast<int64_t>(bytes)})
          .second;
  return answer(is_new ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  if (const cudaError_t error = begin("cudaHostAlloc")) return answer(error);
  if ((flags & cudaHostAllocMapped) == 0) return answer(cudaErrorInvalidValue);
  const std::lock_guard lock(gpu().mutex);
  ++gpu().num_gates;
  *memory = std::malloc(bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(gpu().mutex);
  --gpu().num_gates;
  std::free(memory);
  return answer(gpu().broken);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                             unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool has = gpu().has_wait_values && std::string(symbol) == "cuStreamWaitValue32";
  *function = has ? reinterpret_cast<void*>(&standin::wait_for_value) : nullptr;
  *result = has ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(gpu().mutex);
  const bool was_there = gpu().pinned.erase(static_cast<std::byte*>(memory)) > 0;
  return answer(was_there ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = begin("cudaMemcpyAsync")) return answer(error);
  const auto size = static_cast<int64_t>(bytes);
  if (!standin::is_reachable(to, size) || !standin::is_reachable(from, size))
    ++gpu().num_unpinned_copies;
  standin::note_work(standin::lane_of(stream), {{from, size, false}, {to, size, true}});
  standin::add_to(standin::queue_of(stream), "cudaMemcpyAsync", [=] {
    std::memcpy(standin::translate(to), standin::translate(from), bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = begin("cudaMemsetAsync")) return answer(error);
  standin::note_work(standin::lane_of(stream), {{to, static_cast<int64_t>(bytes), true}});
  standin::add_to(standin::queue_of(stream), "cudaMemsetAsync",
                  [=] { std::memset(standin::translate(to), value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t error = begin("cudaStreamCreateWithFlags")) return answer(error);
  if (flags != cudaStreamNonBlocking) return answer(cudaErrorInvalidValue);
  const std::lock_guard lock(gpu().mutex);
  const std::string name = "gpu " + std::to_string(gpu().streams.size());
  *stream = new CUstream_st{standin::device_of_thread,
                            zero::make_worker_stream(name, standin::stream_options())};
  gpu().streams.insert(*stream);
  return cudaSuccess;
}

// When the last is gone, so is the work of who made them: default streams are made anew.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::map<int, standin::Queue> unused;
  {
    const std::lock_guard lock(gpu().mutex);
    gpu().streams.erase(stream);
    if (gpu().streams.empty()) unused.swap(gpu().default_queues);
  }
  delete stream;
  return answer(gpu().broken);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = begin("cudaStreamSynchronize")) return answer(error);
  {
    const std::lock_guard lock(gpu().mutex);
    ++gpu().num_host_waits;
  }
  standin::note_host_wait_for_lane(standin::lane_of(stream));
  standin::queue_of(stream)->synchronize();
  return answer(standin::broken());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = begin("cudaStreamWaitEvent")) return answer(error);
  standin::note_after(standin::note_wait(standin::lane_of(stream)), event);
  standin::queue_of(stream)->wait(event->point);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                               void* argument) {
  if (const cudaError_t error = begin("cudaLaunchHostFunc")) return answer(error);
  const standin::CallNumber call = standin::note_wait(standin::lane_of(stream));
  const auto turn = standin::turn_of_host_functions(standin::device_of_thread);
  standin::add_to(standin::queue_of(stream), "cudaLaunchHostFunc", [=] {
    const std::lock_guard lock(*turn);
    const standin::Running running(call);
    function(argument);
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = begin("cudaEventCreateWithFlags")) return answer(error);
  const std::lock_guard lock(gpu().mutex);
  ++gpu().num_events;
  *event = new CUevent_st;
  (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  const std::lock_guard lock(gpu().mutex);
  --gpu().num_events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = begin("cudaEventRecord")) return answer(error);
  // A time orders nothing.
  if (!event->has_time) standin::note_record(standin::lane_of(stream), event);
  const standin::Queue queue = standin::queue_of(stream);
  if (event->has_time) event->stamp = queue->stamp();
  queue->record(event->point);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin_event,
                                 cudaEvent_t end_event) {
  if (const cudaError_t error = begin("cudaEventElapsedTime")) return answer(error);
  if (!begin_event->stamp || !end_event->stamp)
    return answer(cudaErrorInvalidResourceHandle);
  const auto from = begin_event->stamp->ns(), to = end_event->stamp->ns();
  if (!from || !to) return answer(cudaErrorNotReady);
  *ms = static_cast<float>(static_cast<double>(*to - *from) * 1e-6);
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event->point.query()) return answer(cudaErrorNotReady);
  return answer(standin::broken());
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  {
    const std::lock_guard lock(gpu().mutex);
    ++gpu().num_host_waits;
  }
  if (!event->has_time) standin::note_host_wait(event);
  event->point.synchronize();
  return answer(standin::broken());
}

}  // extern "C"
