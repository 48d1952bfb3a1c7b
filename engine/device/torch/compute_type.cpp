#include "engine/device/torch/compute_type.h"

#include <ATen/Context.h>
#include <torch/torch.h>

#include <algorithm>
#include <mutex>

#include "zero/options.h"

namespace zero {
namespace {

constexpr std::pair<DType, at::ScalarType> kTypes[] = {
    {DType::kFp64, at::kDouble},   {DType::kFp32, at::kFloat},
    {DType::kBf16, at::kBFloat16}, {DType::kFp16, at::kHalf},
    {DType::kInt64, at::kLong},    {DType::kInt32, at::kInt},
    {DType::kUint8, at::kByte},    {DType::kBool, at::kBool}};

struct State {
  at::Context& context = at::globalContext();
  bool is_deterministic = context.deterministicAlgorithms();
  bool only_warns = context.deterministicAlgorithmsWarnOnly();
  bool fills_memory = context.deterministicFillUninitializedMemory();
  bool cudnn_is_deterministic = context.deterministicCuDNN();
  bool cudnn_tries = context.benchmarkCuDNN();
  bool cublas_tf32 = context.allowTF32CuBLAS();
  bool cudnn_tf32 = context.allowTF32CuDNN();

  void apply() const {
    context.setDeterministicAlgorithms(is_deterministic, only_warns);
    context.setDeterministicFillUninitializedMemory(fills_memory);
    context.setDeterministicCuDNN(cudnn_is_deterministic);
    context.setBenchmarkCuDNN(cudnn_tries);
    context.setAllowTF32CuBLAS(cublas_tf32);
    context.setAllowTF32CuDNN(cudnn_tf32);
  }
};

std::mutex mutex;
int num_alive = 0;            // guarded by mutex
std::optional<State> before;  // guarded by mutex; the first one's

}  // namespace

c10::ScalarType scalar_type(DType dtype) {
  return std::ranges::find(kTypes, dtype, &std::pair<DType, at::ScalarType>::first)
      ->second;
}

std::optional<DType> dtype_of(c10::ScalarType type) {
  for (const auto& [dtype, torch_type] : kTypes) {
    if (torch_type == type) return dtype;
  }
  return {};
}

std::optional<DType> stored_type(c10::ScalarType type) {
  switch (type) {
    case at::kChar:
    case at::kShort:
    case at::kUInt16:
      return DType::kInt32;
    case at::kUInt32:
      return DType::kInt64;
    default:
      return dtype_of(c10::toRealValueType(type));
  }
}

at::Tensor stored_form(const at::Tensor& tensor) {
  const DType type = stored_type(tensor.scalar_type()).value();
  return (tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor)
      .to(scalar_type(type));
}

at::Tensor in_compute_type(const at::Tensor& tensor, DType dtype) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat
             ? tensor.to(scalar_type(dtype))
             : tensor;
}

c10::Device tensor_device(int gpu_index) {
  return gpu_index < 0
             ? c10::Device(c10::kCPU)
             : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu_index));
}

bool torch_knows_gpus() { return at::hasCUDA(); }

GpuArithmetic::GpuArithmetic(const Options& options) {
  const std::lock_guard lock(mutex);
  if (num_alive == 0) before.emplace();
  State state = *before;
  state.cublas_tf32 = state.cudnn_tf32 = options.tf32;
  if (options.deterministic) {
    state.is_deterministic = state.cudnn_is_deterministic = true;
    state.only_warns = state.cudnn_tries = false;
    state.fills_memory = false;  // nobody reads what nobody wrote
  }
  try {
    state.apply();
  } catch (...) {
    if (num_alive == 0) before->apply();
    throw;
  }
  ++num_alive;
}

GpuArithmetic::~GpuArithmetic() {
  const std::lock_guard lock(mutex);
  if (--num_alive == 0) before->apply();
}

}  // namespace zero
