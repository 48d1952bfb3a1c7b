#include "engine/layers/torch/passes.h"

#include <ATen/autocast_mode.h>

namespace zero {
namespace {

// Of tensors that are just their device's: no other backend, no conjugate, no wrapper.
bool has_plain_keys(const at::Tensor& tensor) {
  const c10::DispatchKeySet own = tensor.key_set() -
                                  c10::autograd_dispatch_keyset_with_ADInplaceOrView -
                                  c10::autocast_dispatch_keyset;
  return own == c10::DispatchKeySet(c10::computeDispatchKey({}, {}, tensor.device()));
}

bool is_of_passes(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
         type == at::kDouble;
}

bool somebody_listens(c10::DeviceType device) {
  const c10::DispatchKeySet heard =
      c10::impl::tls_local_dispatch_key_set().included_ - c10::default_included_set;
  return !heard.empty() || at::autocast::is_autocast_enabled(device);
}

}  // namespace

bool are_plain(std::initializer_list<at::Tensor> tensors) {
  return are_plain_on(c10::kCPU, tensors);
}

bool are_plain_on(c10::DeviceType device, std::initializer_list<at::Tensor> tensors) {
  const at::ScalarType type = tensors.begin()->scalar_type();
  const c10::Device first = tensors.begin()->device();
  return is_of_passes(type) && first.type() == device && !somebody_listens(device) &&
         std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
           return tensor.scalar_type() == type && tensor.numel() > 0 &&
                  tensor.device() == first && has_plain_keys(tensor) &&
                  !tensor._fw_grad(/*level=*/0).defined();
         });
}

at::ScalarType wide_type(const at::Tensor& tensor) {
  return at::promote_types(tensor.scalar_type(), at::kFloat);
}

at::Tensor end_to_end(const at::Tensor& tensor) {
  const bool is_so =
      tensor.is_non_overlapping_and_dense() && tensor.dim() > 0 && tensor.stride(-1) == 1;
  return is_so ? tensor : tensor.contiguous();
}

at::Tensor laid_out_as(const at::Tensor& like, const at::Tensor& tensor) {
  if (tensor.strides() == like.strides()) return tensor;
  return at::empty_like(like).copy_(tensor);
}

}  // namespace zero
