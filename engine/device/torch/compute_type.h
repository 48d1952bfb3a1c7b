#pragma once

#include <optional>

#include "base/dtype.h"
#include "base/no_copy.h"

namespace at {
class Tensor;
}
namespace c10 {
enum class ScalarType : int8_t;
struct Device;
}  // namespace c10
namespace zero {

// torch's name of the type, and ours; nothing for types that a checkpoint does not know.
c10::ScalarType scalar_type(DType dtype);
std::optional<DType> dtype_of(c10::ScalarType type);

// The nearest type to it that a checkpoint knows: of a complex number's parts, and of
// integers a longer one; nothing for others.
std::optional<DType> stored_type(c10::ScalarType type);
// A tensor in that type: a complex one as pairs (..., 2).
at::Tensor stored_form(const at::Tensor& tensor);

// A float tensor in the type that units compute in; others, undefined ones too, as they
// are.
at::Tensor in_compute_type(const at::Tensor& tensor, DType dtype);

// Where the tensors are that units compute with: of Device::gpu_index().
c10::Device tensor_device(int gpu_index);

// Has LibTorch loaded its part for GPUs? Asked early, it says no for good.
bool torch_knows_gpus();

struct Options;

// How LibTorch computes on GPUs, as long as this lives: with TF32 or without, and with
// Options::deterministic by operators alone that give the same bits each time; LibTorch
// throws the name of one that has no such way. For the whole process, in which all such
// have the same options; then as it was. What cuBLAS needs for that is in the environment
// since num_gpus().
class GpuArithmetic : NoCopy {
 public:
  explicit GpuArithmetic(const Options& options);
  ~GpuArithmetic();
};

}  // namespace zero
