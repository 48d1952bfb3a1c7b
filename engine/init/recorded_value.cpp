#include "engine/init/recorded_value.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>

namespace zero {
namespace {

// A deferred storage's data pointer points to nothing and has the value as its context,
// so that the two live as long.
struct Holder {
  ValuePtr value;
  std::optional<c10::Storage> made;  // by give_storage()
};
void delete_holder(void* holder) { delete static_cast<Holder*>(holder); }

Holder* holder_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const c10::DataPtr& data =
      tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &delete_holder ? static_cast<Holder*>(data.get_context())
                                              : nullptr;
}

c10::DataPtr pointer_to(ValuePtr value, void* memory = nullptr) {
  return {memory, new Holder{std::move(value), {}}, &delete_holder,
          c10::Device(c10::kCPU)};
}

c10::Storage storage_of(const ValuePtr& value, void* memory = nullptr) {
  return c10::Storage(c10::Storage::use_byte_size_t(),
                      static_cast<int64_t>(value->num_bytes), pointer_to(value, memory),
                      nullptr, false);
}

at::Tensor over(c10::Storage storage, const at::Tensor& geometry) {
  at::AutoDispatchBelowADInplaceOrView guard;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), geometry.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(geometry.storage_offset());
  impl->set_sizes_and_strides(geometry.sizes(), geometry.strides());
  if (geometry.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  return tensor;
}

// Whoever reads it all the same is told.
void forbid_reading(const c10::Storage& storage) {
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "a tensor made under zero::DeferredInit has no values: register it as a parameter "
      "or buffer, and read it after the zero::Engine was made");
}

}  // namespace

// A long chain is taken apart link by link: each would end the one before it inside its
// own end.
RecordedValue::~RecordedValue() {
  std::vector<ValuePtr> links;
  const auto take = [&](RecordedValue& value) {
    if (value.call && value.call.use_count() == 1) {
      for (const c10::IValue& argument : value.call->arguments) {
        for (const at::Tensor& tensor : tensors_in(argument)) {
          if (Holder* holder = holder_of(tensor);
              holder && tensor.storage().use_count() == 1)
            links.push_back(std::move(holder->value));
        }
      }
    }
    if (value.before) links.push_back(std::move(value.before));
  };
  take(*this);
  while (!links.empty()) {
    const ValuePtr link = std::move(links.back());
    links.pop_back();
    if (link && link.use_count() == 1) take(const_cast<RecordedValue&>(*link));
  }
}

std::shared_ptr<RecordedValue> new_value(const at::Tensor& geometry) {
  auto value = std::make_shared<RecordedValue>();
  value->variable = std::make_shared<RecordedVariable>();
  value->num_bytes = geometry.storage().nbytes();
  value->is_floating = geometry.is_floating_point();
  return value;
}

ValuePtr recorded_value(const at::Tensor& tensor) {
  const Holder* holder = holder_of(tensor);
  return holder ? holder->value : nullptr;
}

void set_recorded_value(const at::Tensor& deferred, ValuePtr value) {
  holder_of(deferred)->value = std::move(value);
}

at::Tensor make_deferred(const at::Tensor& geometry, ValuePtr value) {
  c10::Storage storage = storage_of(value);
  forbid_reading(storage);
  return over(std::move(storage), geometry);
}

at::Tensor make_open(const at::Tensor& geometry, const RecordedValue& unwritten) {
  auto value = std::make_shared<RecordedValue>(unwritten);
  c10::DataPtr memory = c10::GetAllocator(c10::kCPU)->allocate(value->num_bytes);
  void* const data = memory.get();
  if (data) std::memset(data, unwritten_byte(value->is_floating), value->num_bytes);
  value->memory = std::make_shared<const c10::DataPtr>(std::move(memory));
  return over(storage_of(value, data), geometry);
}

void become_deferred(const at::Tensor& tensor) {
  const std::shared_ptr<RecordedValue> value = new_value(tensor);
  c10::DataPtr memory =
      tensor.storage().unsafeGetStorageImpl()->set_data_ptr(pointer_to(value));
  value->memory = std::make_shared<const c10::DataPtr>(std::move(memory));
  forbid_reading(tensor.storage());
  tensor.unsafeGetTensorImpl()->bump_version();  // calls that took it are told
}

void close_memory(const at::Tensor& deferred) {
  c10::StorageImpl& storage = *deferred.storage().unsafeGetStorageImpl();
  if (!storage._mutable_data_ptr_no_checks()) return;
  ValuePtr value = recorded_value(deferred);
  if (is_unwritten(*value)) {
    auto without_memory = std::make_shared<RecordedValue>(*value);
    without_memory->memory = nullptr;
    value = without_memory;
  }
  storage.set_data_ptr(pointer_to(value));
  forbid_reading(deferred.storage());
}

int unwritten_byte(bool is_floating) { return is_floating ? 0xff : 0xa7; }

c10::Storage unwritten_storage(size_t num_bytes, bool is_floating) {
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<int64_t>(num_bytes),
                       c10::GetAllocator(c10::kCPU), /*resizable=*/false);
  if (num_bytes > 0)
    std::memset(storage.mutable_data(), unwritten_byte(is_floating), num_bytes);
  return storage;
}

bool is_unwritten(const RecordedValue& value) {
  if (value.call || value.num_bytes == 0) return false;
  if (!value.memory) return true;
  const auto* bytes = static_cast<const unsigned char*>(value.memory->get());
  return std::all_of(bytes, bytes + value.num_bytes, [&](unsigned char byte) {
    return byte == unwritten_byte(value.is_floating);
  });
}

void give_storage(at::Tensor deferred, const std::function<c10::Storage()>& make) {
  Holder* holder = holder_of(deferred);
  if (!holder->made) holder->made = make();
  const c10::Storage storage = *holder->made;
  deferred.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
}

void take_storage_back(at::Tensor tensor, const c10::Storage& deferred) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(deferred);
  holder_of(tensor)->made.reset();
}

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  std::vector<at::Tensor> tensors;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.defined()) tensors.push_back(tensor);
  };
  if (value.isTensor()) add(value.toTensor());
  if (!value.isList()) return tensors;
  for (const c10::IValue& each : value.toListRef()) {
    if (each.isTensor()) add(each.toTensor());
  }
  return tensors;
}

}  // namespace zero
