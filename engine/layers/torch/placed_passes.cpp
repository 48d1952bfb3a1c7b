#include "engine/layers/torch/placed_passes.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "engine/device/gpu.h"
#include "engine/device/torch/compute_type.h"
#include "zero/errors.h"

namespace zero {
namespace {

const GpuPasses* find_gpu_passes() {
  try {
    auto* const found = find_in_gpu_library<decltype(zero_gpu_passes)>("zero_gpu_passes");
    return found ? found() : nullptr;
  } catch (const Error&) {
    return nullptr;  // the expressions do without
  }
}

}  // namespace

const GpuPasses* gpu_passes() {
  static const GpuPasses* const passes = find_gpu_passes();
  return passes;
}

void* current_stream_of(const at::Tensor& tensor) {
  const c10::Device gpu = tensor.device();
  return c10::impl::VirtualGuardImpl(gpu.type()).getStream(gpu).native_handle();
}

bool passes_take(std::initializer_list<at::Tensor> tensors) {
  if (are_plain(tensors)) return true;
  const c10::DeviceType of_gpus = tensor_device(/*gpu_index=*/0).type();
  return are_plain_on(of_gpus, tensors) &&
         tensors.begin()->scalar_type() != at::kDouble && gpu_passes();
}

}  // namespace zero
