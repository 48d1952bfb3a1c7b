#include "engine/compute_type.h"

#include <torch/torch.h>

namespace zero {

c10::ScalarType scalar_type(DType dtype) {
  return dtype == DType::kFloat32 ? at::kFloat : at::kBFloat16;
}

at::Tensor in_compute_type(const at::Tensor& tensor, DType dtype) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat
             ? tensor.to(scalar_type(dtype))
             : tensor;
}

}  // namespace zero
