#pragma once
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "engine/plan/flat_layout.h"

namespace zero {

// The parameters of one unit as views of one flat tensor whose memory comes and goes.
//
// point_to() makes them read and write that memory; release() takes it away: whoever
// touches a released parameter gets an exception that names it. Views that autograd saved
// see the memory that is current when they are read. No version counter moves.
class FlatParams : NoCopy {
 public:
  // `params` are changed: shape stays, type becomes `dtype`, memory, which will be of
  // `device`, is none until point_to(). They are in the order of the layout.
  FlatParams(const FlatLayout& layout, std::vector<at::Tensor> params,
             at::ScalarType dtype, c10::Device device);

  // Whoever touches the parameters afterwards, also through autograd, gets an exception.
  ~FlatParams();

  // layout.numel elements of dtype. Throws Error(kUsage) for a parameter that somebody
  // gave another tensor.
  void point_to(void* memory);
  void release();

  const std::vector<at::Tensor>& params() const { return params_; }
  const std::string& fqn(size_t i) const { return fqns_[i]; }
  std::byte* memory() const { return memory_; }  // null while released
  int64_t bytes() const { return bytes_; }

 private:
  void note_replaced(size_t i);

  const c10::Device device_;
  std::vector<at::Tensor> params_;
  std::vector<c10::Storage> poison_;  // of each parameter: throws its name when read
  std::vector<std::string> fqns_;
  c10::Storage live_;
  std::optional<std::string> replaced_;  // got another tensor
  std::byte* memory_ = nullptr;
  int64_t bytes_ = 0;
};

// Does the tensor lie in the memory of some FlatParams, gathered or not? Parameters of an
// engine do, and views of them.
bool is_flat(const at::Tensor& tensor);

}  // namespace zero
