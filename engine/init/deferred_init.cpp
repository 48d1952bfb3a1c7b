#include "engine/init/deferred_init.h"

#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/errors.h"

namespace zero {
namespace {

// One remembered call. The deferred tensor's own argument is kept as a geometry over its
// storage, so that the call can be run once the storage has memory.
struct RecordedOp {
  c10::OperatorHandle op;
  torch::jit::Stack arguments;  // None where the deferred tensor was
  size_t self = 0;              // its position
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
};

// What was remembered for one storage, and the memory it was given, if it was.
struct Record {
  std::vector<RecordedOp> calls;
  std::optional<c10::Storage> materialized;
};

// The record lives with the storage: it is the context of a data pointer to nothing.
void delete_record(void* record) { delete static_cast<Record*>(record); }

Record* record_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  const c10::DataPtr& data =
      tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  return data.get_deleter() == &delete_record ? static_cast<Record*>(data.get_context())
                                              : nullptr;
}

at::Tensor make_deferred(const at::Tensor& meta) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const c10::Device cpu(c10::kCPU);
  c10::Storage storage(c10::Storage::use_byte_size_t(), meta.storage().nbytes(),
                       c10::DataPtr(nullptr, new Record, &delete_record, cpu), nullptr,
                       false);
  // Whoever reads it all the same, a member that was never registered for one, is told.
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
      "a tensor made under zero::DeferredInit has no values: register it as a parameter "
      "or buffer, and read it after the zero::Engine was made");
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), meta.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides());
  return tensor;
}

// Functions that make a tensor, and the in-place fill that gives the same values.
using Fill = void (*)(at::Tensor tensor, const c10::IValue& fill_value);
const std::unordered_map<std::string, Fill> kFactories{
    {"aten::empty", [](at::Tensor, const c10::IValue&) {}},
    {"aten::empty_strided", [](at::Tensor, const c10::IValue&) {}},
    {"aten::zeros", [](at::Tensor tensor, const c10::IValue&) { tensor.zero_(); }},
    {"aten::ones", [](at::Tensor tensor, const c10::IValue&) { tensor.fill_(1); }},
    {"aten::full",
     [](at::Tensor tensor, const c10::IValue& value) { tensor.fill_(value.toScalar()); }},
    {"aten::rand", [](at::Tensor tensor, const c10::IValue&) { tensor.uniform_(); }},
    {"aten::randn", [](at::Tensor tensor, const c10::IValue&) { tensor.normal_(); }}};

bool is_view(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && returns[0].alias_info() != nullptr &&
         !returns[0].alias_info()->isWrite();
}

void call_really(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no(c10::DispatchKey::DeferredInit);
  op.callBoxed(stack);
}

// Make the same tensor on the meta device, then one without memory, whose fill is
// remembered.
void run_factory(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t base = stack->size() - arguments.size();
  c10::IValue fill_value;
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[base + i];
    if (arguments[i].name() == "device") {
      if (value.isDevice() && !value.toDevice().is_cpu()) return call_really(op, stack);
      value = c10::Device(c10::kMeta);
    }
    if (arguments[i].name() == "fill_value") fill_value = value;
  }
  call_really(op, stack);
  const at::Tensor deferred = make_deferred(stack->back().toTensor());
  stack->back() = deferred;
  kFactories.at(op.schema().name())(deferred, fill_value);
}

void remember(const c10::OperatorHandle& op, torch::jit::Stack* stack, size_t self) {
  const size_t count = op.schema().arguments().size(), base = stack->size() - count;
  const at::Tensor target = (*stack)[base + self].toTensor();
  RecordedOp call{.op = op,
                  .arguments = {},
                  .self = self,
                  .sizes = target.sizes().vec(),
                  .strides = target.strides().vec(),
                  .offset = target.storage_offset()};
  for (size_t i = 0; i < count; ++i) {
    call.arguments.push_back(i == self ? c10::IValue() : (*stack)[base + i]);
  }
  record_of(target)->calls.push_back(std::move(call));
  torch::jit::drop(*stack, count);
  stack->push_back(target);
}

bool holds_deferred(const c10::IValue& value) {
  if (value.isTensor()) return is_deferred(value.toTensor());
  if (value.isTensorList())
    return std::ranges::any_of(value.toTensorVector(), is_deferred);
  return value.isOptionalTensorList() &&
         std::ranges::any_of(value.toOptionalTensorVector(), [](const auto& tensor) {
           return tensor && is_deferred(*tensor);
         });
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet,
              torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size(), base = stack->size() - count;
  std::vector<size_t> deferred;
  for (size_t i = 0; i < count; ++i) {
    if (holds_deferred((*stack)[base + i])) deferred.push_back(i);
  }
  if (deferred.empty() && kFactories.contains(schema.name()))
    return run_factory(op, stack);
  const bool is_first_alone = deferred == std::vector<size_t>{0};
  if (is_first_alone && schema.is_mutable()) return remember(op, stack, 0);
  if (!deferred.empty() && !(is_first_alone && is_view(schema))) {
    throw Error(ExitCode::kUsage,
                "a constructor reads the values of a deferred tensor: " + schema.name(),
                "inside zero::DeferredInit",
                "compute it in forward(), or give the parameter an InitSpec");
  }
  call_really(op, stack);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

void replay(const std::vector<RecordedOp>& calls, const c10::Storage& storage,
            const at::TensorOptions& options) {
  torch::NoGradGuard no_grad;
  for (const RecordedOp& call : calls) {
    torch::jit::Stack stack = call.arguments;
    const at::Tensor view =
        at::empty({0}, options).set_(storage, call.offset, call.sizes, call.strides);
    stack[call.self] = view;
    call.op.callBoxed(&stack);
  }
}

}  // namespace

struct DeferredInit::Guard {
  c10::impl::IncludeDispatchKeyGuard include{c10::DispatchKey::DeferredInit};
};

DeferredInit::DeferredInit() : guard_(std::make_unique<Guard>()) {}
DeferredInit::~DeferredInit() = default;

bool is_deferred(const at::Tensor& tensor) { return record_of(tensor) != nullptr; }

// The storage itself can never be read; all views of it get the same new one.
void materialize(at::Tensor tensor) {
  Record* record = record_of(tensor);
  if (!record) return;
  if (!record->materialized) {
    const auto bytes = static_cast<int64_t>(tensor.storage().nbytes());
    const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                               c10::GetAllocator(c10::kCPU), /*resizable=*/false);
    replay(record->calls, storage, tensor.options());
    record->materialized = storage;
  }
  const c10::Storage storage = *record->materialized;
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
}

}  // namespace zero
