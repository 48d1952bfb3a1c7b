#pragma once
// What is remembered of deferred tensors: each value that a storage had, and the call
// that made it. Values never change and know only earlier ones.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace zero {

struct RecordedCall;

// A storage from its beginning to its end. What is drawn into it depends on its name:
// the FQN of the parameter or buffer that it became, or was needed for.
struct RecordedVariable {
  std::string name;       // empty: nobody asked yet
  int64_t num_draws = 0;  // calls that drew random numbers for it
};

// What lay in a storage at one time.
struct RecordedValue {
  ~RecordedValue();

  std::shared_ptr<RecordedVariable> variable;
  size_t num_bytes = 0;
  bool is_floating = false;
  // Made by this call: what it wrote, or returned, in that place. Null: memory as it was
  // allocated, `memory` where that has content.
  std::shared_ptr<const RecordedCall> call;
  size_t place = 0;
  std::shared_ptr<const RecordedValue> before;  // what the call changed; null: it is new
  std::shared_ptr<const c10::DataPtr> memory;
};
using ValuePtr = std::shared_ptr<const RecordedValue>;

// A call as it would have run. Deferred tensors among its arguments are snapshots: the
// same geometry over a storage whose value stays that of then.
struct RecordedCall {
  explicit RecordedCall(c10::OperatorHandle op) : op(std::move(op)) {}

  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
  std::vector<std::pair<at::Tensor, uint32_t>> others;  // with memory: and their version
  bool is_mutable = false;
  // Of a call that draws random numbers: for whom, and how often that one drew before.
  std::shared_ptr<RecordedVariable> drawn_for;
  int64_t draw = 0;
};

// That of memory as it was allocated for such a tensor.
std::shared_ptr<RecordedValue> new_value(const at::Tensor& geometry);

// The value that a deferred tensor's storage has now; null for other tensors.
ValuePtr recorded_value(const at::Tensor& tensor);
void set_recorded_value(const at::Tensor& deferred, ValuePtr value);

// A tensor of such a geometry (a meta tensor has) over a storage of its own that holds
// the value.
at::Tensor make_deferred(const at::Tensor& geometry, ValuePtr value);
// Take the memory of a tensor that has some; it and its views become deferred.
void become_deferred(const at::Tensor& tensor);

// The same of a new value, with memory that others may write until a call takes it.
at::Tensor make_open(const at::Tensor& geometry, const RecordedValue& unwritten);
void close_memory(const at::Tensor& deferred);

// Has nothing been written to it?
bool is_unwritten(const RecordedValue& value);

// What a byte is that nothing wrote: floating-point values of it are NaN, one that no
// operation makes.
int unwritten_byte(bool is_floating);

// Put a tensor over a storage with its values. Other deferred tensors of the same storage
// get that one, too.
void give_storage(at::Tensor deferred, const std::function<c10::Storage()>& make);
// Undo it: the tensor is deferred over the storage that it had, as if it had got none.
void take_storage_back(at::Tensor tensor, const c10::Storage& deferred);

// Memory that nothing has written.
c10::Storage unwritten_storage(size_t num_bytes, bool is_floating);

// Every tensor in an argument, lists included.
std::vector<at::Tensor> tensors_in(const c10::IValue& value);

// An argument with `change` made to each of its tensors.
template <class Change>
c10::IValue with_tensors(const c10::IValue& value, const Change& change) {
  if (value.isTensor() && value.toTensor().defined()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& each : value.toTensorVector())
      list.push_back(each.defined() ? change(each) : each);
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& each : value.toOptionalTensorVector())
      list.push_back(each && each->defined() ? std::optional(change(*each)) : each);
    return list;
  }
  return value;
}

}  // namespace zero
