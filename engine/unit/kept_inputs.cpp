#include "engine/unit/kept_inputs.h"

namespace zero {

void KeptInputs::keep(const std::vector<at::Tensor>& inputs, bool as_copies) {
  for (const at::Tensor& given : inputs) {
    const at::Tensor input = given.detach();
    tensors_.push_back(as_copies ? input.clone() : input);
    const auto& counter = tensors_.back().unsafeGetTensorImpl()->version_counter();
    versions_.push_back({counter, counter.current_version()});
  }
  if (store_) store_->record(ready_);
}

void KeptInputs::offload(int64_t weights_version) {
  if (!store_) return;
  offloaded_ = store_->offload(tensors_, ready_, weights_version);
  ready_.renew(nullptr);  // it knows its device, which a graph may outlive
  for (size_t i = 0; offloaded_ && i < tensors_.size(); ++i) {
    if (offloaded_->has(i)) tensors_[i].reset();
  }
}

std::optional<size_t> KeptInputs::first_changed() const {
  for (size_t i = 0; i < versions_.size(); ++i) {
    if (versions_[i].counter.current_version() != versions_[i].then) return i;
  }
  return std::nullopt;
}

std::vector<at::Tensor> KeptInputs::fetch() {
  if (!offloaded_) return tensors_;
  offloaded_->fetch();
  std::vector<at::Tensor> tensors = tensors_;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (offloaded_->has(i)) tensors[i] = offloaded_->tensor(i);
  }
  return tensors;
}

void KeptInputs::put_away() {
  if (offloaded_) offloaded_->put_away();
}

void KeptInputs::clear() {
  tensors_.clear();
  versions_.clear();
  offloaded_.reset();
}

}  // namespace zero
