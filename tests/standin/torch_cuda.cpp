// LibTorch's part for CUDA on the stand-in: tensors on cuda:0, cuda:1 ... whose operators
// run on the host, in the device's default stream.
//
// An operator that writes into what it was given (x.add_(), most that autograd calls) is
// queued, as a kernel is, and runs late; the others wait for the stream first. Memory is
// the stand-in's, which nobody else can touch, and NaN when it is new. Numbers are those
// of LibTorch's operators for CPUs, to the bit.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "engine/device/gpu.h"
#include "tests/standin/standin.h"

namespace {

c10::Device gpu(int index) { return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)}; }
c10::Device this_gpu() { return gpu(standin::current_device()); }

const c10::DispatchKeySet kGpuKeys(c10::DispatchKey::CUDA);

// --- memory

// Blocks are kept for the next of their size, as LibTorch does: who let one go may have
// work queued that uses it, and so the next one's comes later.
class CachingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int device = standin::current_device();
    if (bytes == 0) return {nullptr, gpu(device)};
    void* const memory = take({device, bytes});
    // In the stream: what is queued may still write into a block that was let go.
    standin::note_work(standin::lane_of(nullptr),
                       {{memory, static_cast<int64_t>(bytes), true}});
    standin::launch(device,
                    [=] { std::memset(standin::translate(memory), 0xFF, bytes); });
    return {memory, memory, &give_back, gpu(device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  // Bytes of tensors at most, and of all blocks.
  zero::TorchMemory peak() {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    const auto size = static_cast<int64_t>(bytes);
    standin::note_work(standin::lane_of(nullptr),
                       {{from, size, false}, {to, size, true}});
    standin::launch(standin::current_device(), [=] {
      std::memcpy(standin::translate(to), standin::translate(from), bytes);
    });
  }

 private:
  using Size = std::pair<int, size_t>;  // of which device

  void* take(Size size) {
    const std::lock_guard lock(mutex_);
    const auto bytes = static_cast<int64_t>(size.second);
    in_use_ += bytes;
    peak_.tensors = std::max(peak_.tensors, in_use_);
    std::vector<void*>& left = free_[size];
    if (left.empty()) {
      peak_.reserved += bytes;
      void* const memory = standin::allocate_uncounted(static_cast<int64_t>(size.second));
      sizes_[memory] = size;
      return memory;
    }
    void* const memory = left.back();
    left.pop_back();
    return memory;
  }
  static void give_back(void* memory);

  std::mutex mutex_;
  std::map<Size, std::vector<void*>> free_;  // guarded by mutex_
  std::map<void*, Size> sizes_;              // guarded by mutex_
  int64_t in_use_ = 0;                       // guarded by mutex_
  zero::TorchMemory peak_;                   // guarded by mutex_
};

CachingAllocator& allocator() {
  static auto* const allocator = new CachingAllocator;  // tensors may outlive it
  return *allocator;
}

void CachingAllocator::give_back(void* memory) {
  CachingAllocator& self = allocator();
  const std::lock_guard lock(self.mutex_);
  const Size size = self.sizes_.at(memory);
  self.free_[size].push_back(memory);
  self.in_use_ -= static_cast<int64_t>(size.second);
  standin::note_let_go(standin::lane_of(nullptr),
                       {memory, static_cast<int64_t>(size.second)});
}

c10::Device or_this(std::optional<at::Device> device) {
  return device && device->has_index() ? *device : this_gpu();
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device> device,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(or_this(device));
  return at::detail::empty_generic(size, &allocator(), kGpuKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(or_this(device));
  return at::detail::empty_strided_generic(size, stride, &allocator(), kGpuKeys,
                                           c10::dtype_or_default(dtype));
}

// --- operators

// As LibTorch, which finds out there.
void wait_for(int device, bool is_counted) {
  TORCH_CHECK(standin::drain(device, is_counted),
              "CUDA error: an illegal memory access was encountered");
}

// The same elements as the host sees them.
at::Tensor on_host(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  void* const memory = standin::translate(storage->data());  // throws if it was released
  c10::Storage same(c10::Storage::use_byte_size_t(), storage->nbytes(),
                    c10::DataPtr(memory, c10::kCPU));
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      std::move(same), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  c10::TensorImpl* const impl = alias.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides());
  impl->set_storage_offset(tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return alias;
}

// From the first to the last element of what is on the GPU.
void add_access(const c10::IValue& value, bool writes,
                std::vector<standin::Access>& accesses) {
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector())
      add_access(tensor, writes, accesses);
  }
  if (!value.isTensor() || !value.toTensor().defined()) return;
  const at::Tensor tensor = value.toTensor();
  if (!tensor.is_cuda() || tensor.numel() == 0) return;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto* begin = static_cast<const std::byte*>(tensor.storage().data()) +
                      tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  accesses.push_back(
      {begin, (last + 1) * static_cast<int64_t>(tensor.itemsize()), writes});
}

// What an operator reads and writes: on a GPU all of them are kernels that are queued.
void note_operator(const c10::FunctionSchema& schema, const torch::jit::Stack& given) {
  std::vector<standin::Access> accesses;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    add_access(given[i], alias && alias->isWrite(), accesses);
  }
  standin::note_work(standin::lane_of(nullptr), std::move(accesses));
}

// What an operator was given, and the same for the host.
class Arguments {
 public:
  c10::IValue replace(const c10::IValue& value) {
    if (value.isTensor()) return replace(value.toTensor());
    if (!value.isList()) return value;
    const c10::List<c10::IValue> list = value.toList();
    c10::impl::GenericList replaced(list.elementType());
    for (const c10::IValue& element : list) replaced.push_back(replace(element));
    return replaced;
  }

  // Of a tensor that the operator returned for the host.
  at::Tensor give_back(const at::Tensor& result) const {
    if (!result.defined()) return result;
    for (const auto& [theirs, ours] : tensors_) {
      if (ours.is_same(result)) {
        if (theirs.sizes() != ours.sizes()) take_over(theirs, copy_of(ours));
        return theirs;
      }
      TORCH_CHECK(!result.is_alias_of(ours),
                  "the stand-in does not know this view function");
    }
    return copy_of(result);
  }

  // Of the tensors.
  int device() const {
    return tensors_.empty() ? standin::current_device()
                            : tensors_.front().first.device().index();
  }

 private:
  at::Tensor copy_of(const at::Tensor& result) const {
    at::Tensor copy = empty_strided(result.sizes(), result.strides(),
                                    result.scalar_type(), {}, gpu(device()), {});
    standin::launch(device(), [result, to = on_host(copy)] {
      const at::AutoDispatchBelowADInplaceOrView guard;
      to.copy_(result);
    });
    return copy;
  }
  static void take_over(const at::Tensor& tensor, const at::Tensor& other) {
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(other.storage());
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(other.sizes(), other.strides());
  }

  at::Tensor replace(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    TORCH_CHECK(tensors_.empty() || !tensor.is_cuda() ||
                    tensor.device() == tensors_.front().first.device(),
                "Expected all tensors to be on the same device");
    // What is queued must not see later changes.
    if (!tensor.is_cuda()) {
      TORCH_CHECK(tensor.dim() == 0, "Expected all tensors to be on the same device");
      return tensor.clone();
    }
    if (tensor.numel() == 0) {  // to be resized, maybe
      return tensors_
          .emplace_back(tensor, at::empty(tensor.sizes(), tensor.scalar_type()))
          .second;
    }
    return tensors_.emplace_back(tensor, on_host(tensor)).second;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
};

const at::Generator& gpu_generator(int device) {
  static const std::vector<at::Generator> generators = [] {
    std::vector<at::Generator> of_gpus;
    for (int i = 0; i < standin::num_gpus(); ++i)
      of_gpus.push_back(at::detail::createCPUGenerator());
    return of_gpus;
  }();
  return generators.at(device);
}

// A GPU's random numbers are the host's from a generator of the GPU's own. One operator
// at a time: the host's generator is lent.
class Draws {
 public:
  explicit Draws(int device) : lock_(mutex()), device_(device) { swap(); }
  ~Draws() { swap(); }
  Draws(const Draws&) = delete;
  Draws& operator=(const Draws&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex mutex;
    return mutex;
  }
  void swap() const {
    at::Generator host = at::detail::getDefaultCPUGenerator(),
                  own = gpu_generator(device_);
    const std::scoped_lock lock(host.mutex(), own.mutex());
    const at::Tensor state = host.get_state();
    host.set_state(own.get_state());
    own.set_state(state);
  }

  const std::lock_guard<std::mutex> lock_;
  const int device_;
};

void call_on_host(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
}

// cublasLt is told how matrices are aligned, up to 256 bytes, and chooses its algorithm
// by that: the engine's weights would give other bits where they lie otherwise.
void check_alignment(const c10::FunctionSchema& schema, const torch::jit::Stack& given) {
  if (schema.name() != "aten::mm" && schema.name() != "aten::addmm") return;
  for (const c10::IValue& value : given) {
    if (!value.isTensor() || !value.toTensor().is_cuda()) continue;
    const void* const memory = value.toTensor().const_data_ptr();
    TORCH_CHECK(
        !standin::is_of_program(memory) || reinterpret_cast<uintptr_t>(memory) % 256 == 0,
        "a weight does not lie at a multiple of 256 bytes");
  }
}

// Kernels for GPUs ask whether these are empty.
void check_saved_statistics(const c10::FunctionSchema& schema,
                            const torch::jit::Stack& given) {
  if (schema.name() != "aten::native_batch_norm_backward") return;
  constexpr size_t kMean = 5, kInverseStd = 6;
  for (const size_t i : {kMean, kInverseStd})
    TORCH_CHECK(given[i].isTensor() && given[i].toTensor().defined(),
                "save_mean should always be defined");
}

void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const c10::FunctionSchema& schema = op.schema();
  const auto begin =
      stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size());
  const torch::jit::Stack given(begin, stack->end());
  note_operator(schema, given);
  check_alignment(schema, given);
  check_saved_statistics(schema, given);
  Arguments arguments;
  torch::jit::Stack for_host;
  for (const c10::IValue& value : given) for_host.push_back(arguments.replace(value));
  stack->erase(begin, stack->end());

  const bool draws = op.hasTag(at::Tag::nondeterministic_seeded);
  const bool returns_arguments =
      std::ranges::all_of(schema.returns(), [](const c10::Argument& result) {
        return result.alias_info() && result.alias_info()->isWrite();
      });
  const bool may_resize = std::ranges::any_of(given, [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() &&
           value.toTensor().numel() == 0;
  });
  if (returns_arguments && !draws && !may_resize) {
    for (size_t i = 0; i < given.size() && !schema.returns().empty(); ++i) {
      const auto* alias = schema.arguments()[i].alias_info();
      if (alias && alias->isWrite()) stack->push_back(given[i]);
    }
    standin::launch(arguments.device(), [op, for_host] {
      torch::jit::Stack work = for_host;
      call_on_host(op, work);
    });
    return;
  }
  const bool returns_value =
      std::ranges::any_of(schema.returns(), [](const c10::Argument& result) {
        return result.type()->kind() != c10::TypeKind::TensorType;
      });
  wait_for(arguments.device(), /*is_counted=*/returns_value);
  std::optional<Draws> swapped;
  if (draws) swapped.emplace(arguments.device());
  call_on_host(op, for_host);
  for (const c10::IValue& result : for_host) {
    stack->push_back(result.isTensor() ? arguments.give_back(result.toTensor()) : result);
  }
}

// A copy from the host is over when this returns, one to the host waits for the stream.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  std::vector<standin::Access> accesses;
  add_access(from, false, accesses);
  add_access(to, true, accesses);
  standin::note_work(standin::lane_of(nullptr), std::move(accesses));
  if (!to.is_cuda()) {
    wait_for(from.device().index(), /*is_counted=*/true);
    to.copy_(on_host(from));
    return to;
  }
  const int device = to.device().index();
  const bool is_from_gpu = from.is_cuda();
  standin::launch(device, [target = on_host(to),
                           source = is_from_gpu ? on_host(from) : from.clone()] {
    const at::AutoDispatchBelowADInplaceOrView guard_here;
    target.copy_(source);
  });
  if (!is_from_gpu && !non_blocking) wait_for(device, /*is_counted=*/true);
  return to;
}

// Flash kernels for GPUs share a group's keys and values among its queries; whatever else
// LibTorch computes attention by copies them for each.
void check_groups(const at::Tensor& query, const at::Tensor& key, bool has_mask,
                  bool enable_gqa) {
  const bool has_16_bits =
      query.scalar_type() == at::kBFloat16 || query.scalar_type() == at::kHalf;
  const bool is_flash = has_16_bits && !has_mask && query.size(-1) <= 256;
  TORCH_CHECK(enable_gqa ? is_flash : query.size(-3) == key.size(-3),
              "keys and values would be copied for each query of their group");
}

// cuDNN's attention is taken first on some GPUs, and is slow where sizes are new.
void check_plans(const at::Tensor& query, const at::Tensor& key) {
  TORCH_CHECK(
      query.size(-2) == key.size(-2) || !at::globalContext().userEnabledCuDNNSDP(),
      "attention would be planned for each number of keys");
}

// What is added to scores of type `type`.
std::optional<at::Tensor> added_mask(const std::optional<at::Tensor>& mask,
                                     at::ScalarType type) {
  if (!mask || !mask->defined() || mask->scalar_type() != at::kBool) return mask;
  return at::zeros_like(*mask, mask->options().dtype(type))
      .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
}

// LibTorch chooses one of GPUs here; the host's numbers are those of its own.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const std::optional<at::Tensor>& mask,
                     double dropout, bool is_causal, std::optional<double> scale,
                     bool enable_gqa) {
  check_groups(query, key, mask && mask->defined(), enable_gqa);
  check_plans(query, key);
  if (dropout > 0) {
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query, key, value, mask, dropout, is_causal, {}, scale, enable_gqa));
  }
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(
      query, key, value, dropout, is_causal, added_mask(mask, query.scalar_type()),
      scale));
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("copy_", &copy);
  library.impl("scaled_dot_product_attention", &attention);
  // Devices without their own get these made of other operators.
  for (const char* name :
       {"convolution", "convolution_backward", "native_group_norm", "native_layer_norm"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run>());
}
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, library) {
  library.impl("scaled_dot_product_attention", &attention);
}

// --- what LibTorch asks a device for

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = this_gpu();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return this_gpu(); }
  void setDevice(c10::Device device) const override {
    standin::set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    setDevice(device);
  }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return getStream(device);
  }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream(this_gpu()); }
  void* getStreamNativeHandle(c10::Stream) const override { return nullptr; }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(standin::num_gpus());
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

struct CudaHooks final : at::CUDAHooksInterface {
  explicit CudaHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  int getNumGPUs() const override { return standin::num_gpus(); }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(standin::num_gpus());
  }
  c10::DeviceIndex current_device() const override { return this_gpu().index(); }
  c10::DeviceIndex getCurrentDevice() const override { return this_gpu().index(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return gpu_generator(device < 0 ? standin::current_device() : device);
  }
};

}  // namespace

zero::TorchMemory zero_peak_torch_memory() { return allocator().peak(); }

namespace at {
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", CudaHooks)
}
