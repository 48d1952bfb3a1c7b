#include "engine/weights/torch/flat_params.h"

#include "zero/errors.h"

namespace zero {
namespace {

// Marks memory that a storage only borrows: what is_flat() looks for. Nothing to free.
void borrowed(void*) {}

c10::DataPtr borrow(void* memory, c10::Device device) {
  return {memory, memory, &borrowed, device};
}

c10::Storage storage_without_memory(int64_t bytes, c10::Device device) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, borrow(nullptr, device),
                      nullptr, false);
}

c10::Storage poison_storage(int64_t bytes, c10::Device device, const std::string& fqn) {
  c10::Storage storage = storage_without_memory(bytes, device);
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      fqn +
      " is released: call the block through its zero::Unit, or zero::units_of() of its "
      "list; outside of forward, Engine::full_parameter()");
  return storage;
}

// A view of `numel` elements of the storage from `offset` on; the storage need not have
// memory.
at::Tensor view_of(const c10::Storage& storage, int64_t offset,
                   const std::vector<int64_t>& shape, at::ScalarType dtype) {
  at::AutoDispatchBelowADInplaceOrView guard;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage),
      c10::DispatchKeySet(c10::computeDispatchKey({}, {}, storage.device())),
      c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(shape);
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  return tensor;
}

// What keeps a storage without memory from being read, and has no setter for false:
// an explicit instantiation may name what is private ([temp.spec] of the standard).
template <bool c10::StorageImpl::*kMember>
struct ThrowsWhenRead {
  friend bool& throws_when_read(c10::StorageImpl& storage) { return storage.*kMember; }
};
bool& throws_when_read(c10::StorageImpl& storage);
template struct ThrowsWhenRead<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

}  // namespace

bool is_flat(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return false;
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  return storage->_mutable_data_ptr_no_checks().get_deleter() == &borrowed;
}

FlatParams::FlatParams(const FlatLayout& layout, std::vector<at::Tensor> params,
                       at::ScalarType dtype, c10::Device device)
    : device_(device),
      params_(std::move(params)),
      bytes_(layout.numel * static_cast<int64_t>(c10::elementSize(dtype))) {
  TORCH_INTERNAL_ASSERT(params_.size() == layout.params.size());
  live_ = storage_without_memory(bytes_, device_);
  torch::NoGradGuard no_grad;
  for (size_t i = 0; i < params_.size(); ++i) {
    params_[i].set_data(view_of(live_, layout.offsets[i], layout.params[i].shape, dtype));
    poison_.push_back(poison_storage(bytes_, device_, layout.params[i].fqn));
    fqns_.push_back(layout.params[i].fqn);
  }
  if (!params_.empty())  // the words stay, whenever it is read without memory
    live_.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "a view of " + fqns_.front() +
        (fqns_.size() > 1 ? ", or of a parameter beside it," : "") +
        " is read while the parameter is released: use it inside the forward that made "
        "it, or make it a clone()");
  release();
}

FlatParams::~FlatParams() {
  if (params_.empty()) return;
  release();
  const auto refuse_reads = [](const c10::Storage& storage, const std::string& fqn) {
    storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
        fqn + ": the zero::Engine of this parameter is gone");
  };
  for (size_t i = 0; i < params_.size(); ++i) refuse_reads(poison_[i], fqns_[i]);
  refuse_reads(live_, fqns_.front());
}

void FlatParams::point_to(void* memory) {
  for (size_t i = 0; i < params_.size(); ++i) note_replaced(i);
  if (replaced_)
    reject("the parameter got another tensor, by set_data() or the like", *replaced_,
           "Engine::set_full_parameter() between steps");
  memory_ = static_cast<std::byte*>(memory);
  throws_when_read(*live_.unsafeGetStorageImpl()) = false;
  live_.unsafeGetStorageImpl()->set_data_ptr_noswap(borrow(memory, device_));
  for (const at::Tensor& param : params_)
    param.unsafeGetTensorImpl()->set_storage_keep_dtype(live_);
}

void FlatParams::release() {
  for (size_t i = 0; i < params_.size(); ++i) {
    if (memory_) note_replaced(i);
    params_[i].unsafeGetTensorImpl()->set_storage_keep_dtype(poison_[i]);
  }
  memory_ = nullptr;
  throws_when_read(*live_.unsafeGetStorageImpl()) = true;
  live_.unsafeGetStorageImpl()->set_data_ptr_noswap(borrow(nullptr, device_));
}

void FlatParams::note_replaced(size_t i) {
  const auto* now = params_[i].storage().unsafeGetStorageImpl();
  if (now != live_.unsafeGetStorageImpl() && now != poison_[i].unsafeGetStorageImpl())
    replaced_ = fqns_[i];
}

}  // namespace zero
