#include "engine/unit/unit_buffers.h"

#include <cstring>

#include "base/hash.h"
#include "zero/errors.h"

namespace zero {
namespace {

// Up to this size a buffer is copied for each call; of a larger one, a table as a rule,
// only if forwards change it.
constexpr size_t kSmallBytes = 64 << 10;

at::Tensor copy_of(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return tensor.clone(at::MemoryFormat::Contiguous);
}

// Contiguous, too.
at::Tensor on_host(const at::Tensor& tensor) {
  at::AutoDispatchBelowADInplaceOrView guard;
  return tensor.contiguous().cpu();
}

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

uint64_t fingerprint_of(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return version_of(tensor);
  const at::Tensor values = on_host(tensor);
  return hash_of(values.const_data_ptr(), values.nbytes());
}

// Autograd's versions stay: these are no changes that a graph should know of.
void assign(const at::Tensor& to, const at::Tensor& from) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (to.is_cpu() && has_same_bytes(to, from)) return;
  if (to.sizes() == from.sizes()) {
    at::Tensor(to).copy_(from);
  } else {  // it grows
    to.unsafeGetTensorImpl()->set_sizes_contiguous(from.sizes());
    to.unsafeGetTensorImpl()->set_storage_offset(0);
    to.unsafeGetTensorImpl()->set_storage_keep_dtype(from.clone().storage());
  }
}

}  // namespace

bool has_same_bytes(const at::Tensor& one, const at::Tensor& other) {
  const at::Tensor values = on_host(one), others = on_host(other);
  return one.sizes() == other.sizes() && values.nbytes() == others.nbytes() &&
         std::memcmp(values.const_data_ptr(), others.const_data_ptr(), others.nbytes()) ==
             0;
}

UnitBuffers::UnitBuffers(const std::vector<torch::nn::Module*>& modules) {
  for (const torch::nn::Module* module : modules) {
    for (const auto& item : module->named_buffers()) add(item.key(), item.value());
  }
}

void UnitBuffers::add(const std::string& name, const at::Tensor& buffer) {
  if (!buffer.defined()) return;
  names_.push_back(name);
  tensors_.push_back(buffer);
  do_change_.push_back(buffer.nbytes() <= kSmallBytes);
  are_on_host_ = are_on_host_ && buffer.is_cpu();
}

UnitBuffers::Watch UnitBuffers::watch(bool is_first_call) const {
  Watch watch;
  watch.compares_values = are_on_host_ || is_first_call;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool is_copied = watch.compares_values || do_change_[i];
    watch.values.push_back(is_copied ? copy_of(tensors_[i]) : at::Tensor());
    watch.versions.push_back(are_on_host_ ? 0 : version_of(tensors_[i]));
  }
  return watch;
}

bool UnitBuffers::has_changed(size_t i, const Watch& watch) const {
  if (!are_on_host_ && version_of(tensors_[i]) != watch.versions[i]) return true;
  return watch.compares_values && !has_same_bytes(tensors_[i], watch.values[i]);
}

UnitBuffers::Before UnitBuffers::learn(Watch watch) {
  Before before;
  before.fingerprints.resize(tensors_.size(), 0);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    do_change_[i] = do_change_[i] || has_changed(i, watch);
    if (do_change_[i] && !watch.values[i].defined())
      reject("a forward changes a large buffer that the first one left as it was",
             names_[i],
             "change it in the first forward as well, or keep the graph instead of "
             "recomputing it (Options::recompute, --recompute none)");
    if (do_change_[i]) continue;
    before.fingerprints[i] = fingerprint_of(tensors_[i]);
    watch.values[i] = at::Tensor();
  }
  before.values = std::move(watch.values);
  return before;
}

std::string UnitBuffers::first_changed(const Watch& watch) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (has_changed(i, watch)) return names_[i];
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
    if (before.values[i].defined() ||
        fingerprint_of(buffers.tensors_[i]) == before.fingerprints[i])
      continue;
    reject("the buffer " + buffers.names_[i] +
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
