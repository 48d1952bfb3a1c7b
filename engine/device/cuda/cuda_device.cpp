#include "engine/device/cuda/cuda_device.h"

#include <algorithm>

#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/kernels.h"
#include "engine/device/host_device.h"

namespace zero {
namespace {

// The oldest architecture that the program has code for.
constexpr int kOldestMajor = 8;

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, const GpuOptions& options)
      : options_(options),
        index_(index),
        context_(std::make_shared<CudaContext>(index)),
        compute_(context_, "compute", CudaStream::Kind::kDefault) {
    context_->set_clock(compute_.handle());
  }
  ~CudaDevice() override {
    context_->try_use();
    for (void* memory : context_->blocks().left()) cudaFree(memory);
    if (hash_) cudaFree(hash_);
  }

  int gpu_index() const override { return index_; }
  std::unique_ptr<Stream> make_stream(const std::string& name) override {
    return std::make_unique<CudaStream>(context_, name, CudaStream::Kind::kOwn);
  }
  std::unique_ptr<HostStream> make_worker(const std::string& name) override {
    HostDeviceOptions host;
    host.chaos_seed = options_.chaos_seed;
    return make_worker_stream(name, host);
  }
  Stream& compute_stream() override { return compute_; }

  void* allocate(const std::string& name, int64_t bytes) override {
    context_->use();
    if (options_.memory_limit > 0 &&
        context_->blocks().bytes() + bytes > options_.memory_limit)
      throw_out_of_memory(name, bytes);
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, bytes > 0 ? bytes : 1);
    if (result == cudaErrorMemoryAllocation) throw_out_of_memory(name, bytes);
    check_cuda(result, "allocating " + name);
    context_->blocks().add(memory, name, bytes);
    return memory;
  }
  // CUDA waits for the work that is queued.
  void free(void* memory) override {
    if (!memory) return;
    context_->blocks().remove(memory);
    context_->try_use();
    cudaFree(memory);
  }
  int64_t allocated_bytes() const override { return context_->blocks().bytes(); }
  Copied copied() const override { return context_->copied(); }

  void pin(void* memory, int64_t bytes) override {
    context_->use();
    check_cuda(cudaHostRegister(memory, bytes, cudaHostRegisterPortable),
               "pinning " + std::to_string(bytes) + " bytes of host memory");
  }
  void unpin(void* memory) override {
    context_->try_use();
    cudaHostUnregister(memory);
  }

  void decode(const Decoding& decoding, ThreadPool&, Stream& stream) override {
    context_->use();
    queue_decode(decoding, as_cuda_stream(stream).handle());
  }
  uint64_t hash(const void* memory, int64_t bytes, Stream& stream) override {
    context_->use();
    if (!hash_) check_cuda(cudaMalloc(&hash_, sizeof(uint64_t)), "allocating a hash");
    uint64_t found = 0;
    stream.set_bytes(hash_, 0, sizeof found);
    queue_hash(static_cast<uint64_t*>(hash_), memory, bytes,
               as_cuda_stream(stream).handle());
    stream.copy(&found, hash_, sizeof found);
    stream.synchronize();
    return found;
  }
  void poison(void* memory, int64_t bytes, Stream& stream) override {
    if (options_.chaos_seed != 0) stream.set_bytes(memory, kNanByte, bytes);
  }

 private:
  [[noreturn]] void throw_out_of_memory(const std::string& name, int64_t bytes) {
    cudaGetLastError();
    GpuMemory memory = memory_of_cuda_device(index_);
    const int64_t limit = options_.memory_limit;
    if (limit > 0)
      memory = {std::max<int64_t>(0, limit - context_->blocks().bytes()), limit};
    throw Error(
        ExitCode::kEnvironment,
        "cannot allocate " + std::to_string(bytes) + " bytes of the GPU's memory: " +
            std::to_string(memory.free) + " of " + std::to_string(memory.total) +
            (limit > 0 ? " that are allowed (device_memory)" : "") +
            " are free; the engine holds: " + context_->blocks().by_owner(),
        name,
        "use a smaller micro-batch, --recompute unit, --offload-activations, or more "
        "ranks; `zero_launch plan` shows what fits");
  }

  const GpuOptions options_;
  const int index_;
  const std::shared_ptr<CudaContext> context_;
  CudaStream compute_;
  void* hash_ = nullptr;  // in the GPU's memory, once there was one
};

void require_architecture(int index) {
  int major = 0, minor = 0;
  const std::string doing = "asking what GPU " + std::to_string(index) + " is";
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index),
             doing);
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index),
             doing);
  if (major >= kOldestMajor) return;
  throw Error(ExitCode::kEnvironment,
              "this GPU has compute capability " + std::to_string(major) + "." +
                  std::to_string(minor) + ", and 8.0 (A100) is the oldest that works",
              "GPU " + std::to_string(index),
              "--device cpu, or CUDA_VISIBLE_DEVICES without it");
}

// "CUDA 13.0"
std::string cuda_of_driver() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return "CUDA " + std::to_string(driver / 1000) + "." +
         std::to_string(driver % 1000 / 10);
}

cudaDeviceProp properties_of(int index) {
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index),
             "asking which GPU " + std::to_string(index) + " is");
  return properties;
}

}  // namespace

int count_cuda_devices() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaErrorNoDevice) {
    cudaGetLastError();
    return 0;
  }
  if (result == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    throw Error(ExitCode::kEnvironment,
                "the GPU's driver is too old: it knows " + cuda_of_driver() +
                    ", this program needs CUDA " + std::to_string(CUDART_VERSION / 1000) +
                    ".0",
                "libcuda.so.1", "update the driver (580 or later), or --device cpu");
  }
  check_cuda(result, "counting GPUs");
  for (int i = 0; i < count; ++i) require_architecture(i);
  return count;
}

std::string identity_of_cuda_device(int index) {
  const cudaDeviceProp properties = properties_of(index);
  std::string identity = "GPU-";
  for (size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) identity += '-';
    identity += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return identity;
}

GpuMemory memory_of_cuda_device(int index) {
  size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaSetDevice(index), "choosing a GPU");
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return {static_cast<int64_t>(free_bytes), static_cast<int64_t>(total_bytes)};
}

int numa_node_of_cuda_device(int index) {
  int node = -1;
  check_cuda(cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, index),
             "asking what GPU " + std::to_string(index) + " is near to");
  return node;
}

std::string describe_cuda_device(int index) {
  return std::string(properties_of(index).name) + ", " + cuda_of_driver();
}

std::unique_ptr<Device> make_cuda_device(int index, const GpuOptions& options) {
  return std::make_unique<CudaDevice>(index, options);
}

}  // namespace zero
