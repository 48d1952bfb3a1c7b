#include "engine/unit_buffers.h"

#include <cstring>

#include "checkpoint/hash.h"
#include "engine/errors.h"

namespace zero {
namespace {

// Up to this size a buffer is copied for each call; of a larger one, a table as a rule,
// only if forwards change it.
constexpr size_t kSmallBytes = 64 << 10;

at::Tensor copy_of(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return tensor.clone(at::MemoryFormat::Contiguous);
}

at::Tensor as_contiguous(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return tensor.contiguous();
}

uint64_t hash_of(const at::Tensor& tensor) {
  const at::Tensor values = as_contiguous(tensor);
  return checkpoint::hash_of(values.const_data_ptr(), values.nbytes());
}

bool is_equal(const at::Tensor& tensor, const at::Tensor& copy) {
  const at::Tensor values = as_contiguous(tensor);
  return values.nbytes() == copy.nbytes() &&
         std::memcmp(values.const_data_ptr(), copy.const_data_ptr(), copy.nbytes()) == 0;
}

// Autograd's versions stay: these are no changes that a graph should know of.
void assign(const at::Tensor& to, const at::Tensor& from) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (is_equal(to, from)) return;
  if (to.sizes() == from.sizes()) {
    at::Tensor(to).copy_(from);
  } else {  // it grows
    to.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
    to.unsafeGetTensorImpl()->set_storage_keep_dtype(from.clone().storage());
  }
}

}  // namespace

UnitBuffers::UnitBuffers(const torch::nn::Module& module) {
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined()) continue;
    names_.push_back(item.key());
    tensors_.push_back(item.value());
    do_change_.push_back(item.value().nbytes() <= kSmallBytes);
  }
}

std::vector<at::Tensor> UnitBuffers::copy() const {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors_) copies.push_back(copy_of(tensor));
  return copies;
}

UnitBuffers::Before UnitBuffers::compare(std::vector<at::Tensor> copies) {
  Before before{std::move(copies), std::vector<uint64_t>(tensors_.size(), 0)};
  for (size_t i = 0; i < tensors_.size(); ++i) {
    do_change_[i] = do_change_[i] || !is_equal(tensors_[i], before.values[i]);
    if (do_change_[i]) continue;
    before.hashes[i] = hash_of(tensors_[i]);
    before.values[i] = at::Tensor();
  }
  return before;
}

std::string UnitBuffers::first_changed(const std::vector<at::Tensor>& copies) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_equal(tensors_[i], copies[i])) return names_[i];
  }
  return "";
}

void UnitBuffers::restore(const std::vector<at::Tensor>& copies) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (copies[i].defined()) assign(tensors_[i], copies[i]);
  }
}

UnitBuffers::Rewind::Rewind(UnitBuffers& buffers, const Before& before,
                            const std::string& unit_fqn)
    : buffers_(buffers) {
  for (size_t i = 0; i < buffers.tensors_.size(); ++i) {
    if (before.values[i].defined() || hash_of(buffers.tensors_[i]) == before.hashes[i])
      continue;
    throw Error(ExitCode::kUsage,
                "the buffer " + buffers.names_[i] +
                    " was changed between a forward and its backward",
                unit_fqn,
                "change buffers before the forward or after the backward, or keep the "
                "graph instead of recomputing it (Options::recompute, --recompute none)");
  }
  // All are copied first: one buffer may stand under two names.
  now_.resize(buffers.tensors_.size());
  for (size_t i = 0; i < now_.size(); ++i) {
    if (before.values[i].defined()) now_[i] = copy_of(buffers.tensors_[i]);
  }
  buffers.restore(before.values);
}

UnitBuffers::Rewind::~Rewind() { buffers_.restore(now_); }

}  // namespace zero
