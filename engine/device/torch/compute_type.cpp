#include "engine/device/torch/compute_type.h"

#include <torch/torch.h>

#include <algorithm>

namespace zero {

namespace {

constexpr std::pair<DType, at::ScalarType> kTypes[] = {
    {DType::kFp64, at::kDouble},   {DType::kFp32, at::kFloat},
    {DType::kBf16, at::kBFloat16}, {DType::kFp16, at::kHalf},
    {DType::kInt64, at::kLong},    {DType::kInt32, at::kInt},
    {DType::kUint8, at::kByte},    {DType::kBool, at::kBool}};

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

}  // namespace zero
