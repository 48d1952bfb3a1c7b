#include "engine/weights/torch/activation_store.h"

#include <algorithm>

#include "engine/device/torch/compute_type.h"
#include "engine/weights/torch/flat_params.h"

namespace zero {

// A tensor's values in the host's memory, for all calls that were given it.
struct ActivationStore::Copy {
  Block* block = nullptr;
  at::Tensor on_device;      // undefined: the host alone has the values
  bool is_original = false;  // what is on the device is what was given
  int num_users = 0;         // calls that want it on the device

  // What was given. The weak pointer keeps another tensor from having the same address.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  const void* address;
  c10::VariableVersion version;
  uint32_t version_then;
  std::vector<int64_t> sizes, strides;
  at::TensorOptions type;
  int64_t bytes;

  explicit Copy(const at::Tensor& input)
      : storage(input.storage().getWeakStorageImpl()),
        address(input.const_data_ptr()),
        version(input.unsafeGetTensorImpl()->version_counter()),
        version_then(version.current_version()),
        sizes(input.sizes().vec()),
        strides(input.strides().vec()),
        type(input.options()),
        bytes(static_cast<int64_t>(input.nbytes())) {}

  bool is_of(const at::Tensor& input) const {
    return !storage.expired() &&
           storage._unsafe_get_target() == input.storage().unsafeGetStorageImpl() &&
           address == input.const_data_ptr() && input.sizes() == sizes &&
           input.strides() == strides && input.dtype() == type.dtype() &&
           version.current_version() == version_then;
  }
};

ActivationStore::Block::Block(Device& device, int64_t bytes)
    : arena("offloaded activations", bytes),
      pinned(device, arena.data(), arena.capacity_bytes()) {}

ActivationStore::Call::Call(std::shared_ptr<ActivationStore> store, int64_t number,
                            int64_t weights_version)
    : store_(std::move(store)), number_(number), weights_version_(weights_version) {}

ActivationStore::Call::~Call() {
  const std::lock_guard lock(store_->mutex_);
  store_->forget(*this);
}

at::Tensor ActivationStore::Call::tensor(size_t i) const {
  const std::lock_guard lock(store_->mutex_);
  return entries_[i].copy->on_device;
}

void ActivationStore::Call::fetch() {
  ActivationStore& store = *store_;
  const std::lock_guard lock(store.mutex_);
  store.throw_failure();
  store.bring_back(*this);
  for (const Entry& entry : entries_) {
    if (entry.copy && !entry.copy->is_original)
      store.compute_.wait(entry.copy->block->moved);
  }
  const auto here = store.calls_.find(number_);
  if (here == store.calls_.begin()) return;
  Call& before = *std::prev(here)->second;
  if (before.weights_version_ == weights_version_) store.bring_back(before);
}

void ActivationStore::Call::put_away() {
  const std::lock_guard lock(store_->mutex_);
  store_->leave_device(*this);
}

ActivationStore::ActivationStore(Device& device, const Options& options)
    : device_(device),
      compute_(device.compute_stream()),
      min_bytes_(options.offload_min_bytes),
      out_(device.make_stream("activations out")),
      back_(device.make_stream("activations back")) {}

ActivationStore::~ActivationStore() { close(); }

std::unique_ptr<ActivationStore::Call> ActivationStore::offload(
    const std::vector<at::Tensor>& inputs, const Event& ready, int64_t weights_version) {
  if (std::ranges::none_of(inputs, [&](const auto& input) { return may_go_out(input); }))
    return nullptr;
  std::unique_ptr<Call> call;  // before the lock, which it takes when it goes
  const std::lock_guard lock(mutex_);
  throw_failure();
  call.reset(new Call(shared_from_this(), next_number_++, weights_version));
  call->entries_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!may_go_out(inputs[i])) continue;
    Call::Entry& entry = call->entries_[i];
    entry.copy = shared_copy(inputs[i]);
    // Given twice to this call, or to the one before.
    for (size_t j = 0; j < i && !entry.copy; ++j) {
      const auto& other = call->entries_[j].copy;
      if (other && other->is_of(inputs[i])) entry.copy = other;
    }
    if (!entry.copy) {
      entry.copy = std::make_shared<Copy>(inputs[i]);
      copy_out(*entry.copy, inputs[i], ready);
    }
    Copy& copy = *entry.copy;
    if (copy.num_users == 0) {
      copy.on_device = inputs[i];
      copy.is_original = true;
    }
    ++copy.num_users;
    entry.is_on_device = true;
  }
  calls_[call->number_] = call.get();
  resident_.push_back(call.get());
  if (resident_.size() > kNumResidentCalls) leave_device(*resident_.front());
  return call;
}

void ActivationStore::close() {
  const std::lock_guard lock(mutex_);
  for (Stream* stream : {out_.get(), back_.get()})
    if (stream) drain(*stream);
  for (const auto& [number, call] : calls_) {
    for (const Call::Entry& entry : call->entries_) {
      if (entry.copy) entry.copy->on_device.reset();
    }
  }
  out_.reset();
  back_.reset();
  resident_.clear();
  free_.clear();
  blocks_.clear();
  bytes_.pinned = 0;
}

OffloadedBytes ActivationStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// Kernels may give other bits where a tensor lies otherwise in memory: what comes back
// has the strides and the alignment of what went. Weights come and go by themselves.
bool ActivationStore::may_go_out(const at::Tensor& input) const {
  constexpr uintptr_t kAlignment = 256;
  return input.device() == tensor_device(device_.gpu_index()) &&
         input.layout() == at::kStrided && !input.is_conj() && !input.is_neg() &&
         !input.is_quantized() && static_cast<int64_t>(input.nbytes()) >= min_bytes_ &&
         input.numel() > 0 && input.is_non_overlapping_and_dense() && !is_flat(input) &&
         reinterpret_cast<uintptr_t>(input.const_data_ptr()) % kAlignment == 0;
}

std::shared_ptr<ActivationStore::Copy> ActivationStore::shared_copy(
    const at::Tensor& input) const {
  if (calls_.empty()) return nullptr;
  for (const Call::Entry& entry : calls_.rbegin()->second->entries_) {
    if (entry.copy && entry.copy->is_of(input)) return entry.copy;
  }
  return nullptr;
}

// Of about this size: twice as much would be waste.
ActivationStore::Block& ActivationStore::take_block(int64_t bytes) {
  const auto fitting = free_.lower_bound(bytes);
  if (fitting != free_.end() && fitting->first <= 2 * bytes) {
    Block& block = *fitting->second;
    free_.erase(fitting);
    return block;
  }
  Block& block = blocks_.emplace_back(device_, bytes);
  bytes_.pinned += block.arena.capacity_bytes();
  return block;
}

void ActivationStore::copy_out(Copy& copy, const at::Tensor& input, const Event& ready) {
  copy.block = &take_block(copy.bytes);
  out_->wait(ready);
  // Who had it before may have gone while this call's body ran, and still be coming back.
  out_->wait(copy.block->moved);
  out_->copy(copy.block->arena.data(), input.const_data_ptr(), copy.bytes);
  out_->record(copy.block->moved);
  bytes_.out += copy.bytes;
}

void ActivationStore::copy_back(Copy& copy) {
  copy.on_device = at::empty_strided(copy.sizes, copy.strides, copy.type);
  copy.is_original = false;
  // LibTorch hands out memory that the compute stream may still use; and that stream has
  // waited for the copy out, when the tensor left the device.
  Event allocated;
  compute_.record(allocated);
  back_->wait(allocated);
  back_->copy(copy.on_device.mutable_data_ptr(), copy.block->arena.data(), copy.bytes);
  back_->record(copy.block->moved);
  bytes_.back += copy.bytes;
}

void ActivationStore::bring_back(Call& call) {
  for (Call::Entry& entry : call.entries_) {
    if (!entry.copy || entry.is_on_device) continue;
    if (entry.copy->num_users == 0) copy_back(*entry.copy);
    ++entry.copy->num_users;
    entry.is_on_device = true;
  }
}

// LibTorch may use the memory again as soon as the compute stream is there: by then the
// last copy from or to it must be done.
void ActivationStore::leave_device(Call& call) noexcept {
  resident_.remove(&call);
  for (Call::Entry& entry : call.entries_) {
    if (!entry.is_on_device) continue;
    entry.is_on_device = false;
    if (--entry.copy->num_users > 0) continue;
    try {
      if (out_) compute_.wait(entry.copy->block->moved);
    } catch (...) {
      failure_ = std::current_exception();
    }
    entry.copy->on_device.reset();
  }
}

void ActivationStore::forget(Call& call) noexcept {
  leave_device(call);
  calls_.erase(call.number_);
  for (Call::Entry& entry : call.entries_) {
    const bool is_last = entry.copy && entry.copy.use_count() == 1;
    if (is_last && out_ && entry.copy->block)
      free_.emplace(entry.copy->block->arena.capacity_bytes(), entry.copy->block);
    entry.copy.reset();
  }
}

void ActivationStore::throw_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace zero
