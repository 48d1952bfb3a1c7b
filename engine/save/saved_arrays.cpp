#include "engine/save/saved_arrays.h"

#include <span>
#include <utility>

#include "engine/device/torch/compute_type.h"

namespace zero {

using checkpoint::Kind;
using checkpoint::Slice;
using checkpoint::StoredTensor;

std::vector<NamedArray> arrays_of(const ShardView& view, bool with_state) {
  std::vector<NamedArray> arrays{{Kind::kParam, view.master}};
  for (const StateView& state : view.state) {
    if (with_state)
      arrays.push_back({checkpoint::kind_named(state.name).value(), state.values});
  }
  return arrays;
}

std::vector<Slice> slices_of(const ShardView& view, bool with_state) {
  std::vector<Slice> slices;
  for (const auto& [kind, values] : arrays_of(view, with_state)) {
    Slice slice{{kind, view.fqn, DType::kFp32, view.shape},
                view.begin,
                static_cast<int64_t>(values.size())};
    if (values.is_plain())
      slice.data = values.span().data();
    else
      slice.fetch = [values = values](int64_t first, int64_t count, void* to) {
        values.read(first, {static_cast<float*>(to), static_cast<size_t>(count)});
      };
    slices.push_back(std::move(slice));
  }
  return slices;
}

std::vector<Slice> shard_slices(Engine& engine, bool with_state) {
  std::vector<Slice> slices;
  for (const ShardView& view : engine.shards()) {
    for (Slice& slice : slices_of(view, with_state)) slices.push_back(std::move(slice));
  }
  return slices;
}

std::optional<BufferView> buffer_view(const std::string& fqn, const at::Tensor& buffer) {
  const std::optional<DType> dtype = stored_type(buffer.scalar_type());
  if (!dtype) return std::nullopt;
  BufferView view{fqn, buffer.sizes().vec(), *dtype};
  if (buffer.is_complex()) view.shape.push_back(2);
  view.is_converted = dtype_of(buffer.scalar_type()) != dtype;
  return view;
}

StoredTensor tensor_of(const BufferView& view) {
  if (view.is_parameter) return {Kind::kParam, view.fqn, DType::kFp32, view.shape};
  return {Kind::kBuffer, view.fqn, view.dtype, view.shape};
}

}  // namespace zero
