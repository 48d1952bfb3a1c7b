#include "launcher/huggingface/merged_weights.h"

#include <algorithm>

#include "checkpoint/error.h"

namespace zero::launcher {
namespace {

std::string factor_name(const LoraTarget& layer, const char* factor) {
  return layer.fqn + "." + factor + ".weight";
}

std::vector<float> values_of(const HeldTensor& held) {
  std::vector<float> values(static_cast<size_t>(held.tensor->numel()));
  held.reader->read(checkpoint::Kind::kParam, held.tensor->fqn, 0, held.tensor->numel(),
                    values.data());
  return values;
}

// (rows, columns) -> (columns, rows)
std::vector<float> transposed(const std::vector<float>& values, int64_t rows) {
  const auto columns = static_cast<int64_t>(values.size()) / rows;
  std::vector<float> result(values.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) result[j * rows + i] = values[i * columns + j];
  return result;
}

}  // namespace

MergedWeights::MergedWeights(const HeldTensors& held,
                             const std::vector<LoraTarget>& layers) {
  std::map<std::string, HeldTensor> all;
  for (const HeldTensor& each : held.of_kind(checkpoint::Kind::kParam))
    all[each.tensor->fqn] = each;
  for (const LoraTarget& layer : layers) {
    if (!layer.has_adapter()) continue;
    layers_of_[layer.fqn + ".weight"] = layer;
    for (const char* factor : {"lora_A", "lora_B"}) {
      const std::string name = factor_name(layer, factor);
      const auto found = all.find(name);
      if (found == all.end())
        throw checkpoint::CheckpointError(held.folders()[0], name,
                                          "this factor of an adapter is missing");
      tensors_[name] = found->second;
    }
  }
}

bool MergedWeights::is_factor(const std::string& fqn) const {
  return tensors_.contains(fqn);
}

void MergedWeights::read_factors(const LoraTarget& layer) {
  const HeldTensor &a = tensors_.at(factor_name(layer, "lora_A")),
                   &b = tensors_.at(factor_name(layer, "lora_B"));
  const int64_t r = a.tensor->shape.at(0);
  factors_ = layer.is_transposed
                 ? Factors{transposed(values_of(a), r),
                           transposed(values_of(b), b.tensor->shape.at(0)), r}
                 : Factors{values_of(b), values_of(a), r};
  for (float& value : factors_.left) value *= static_cast<float>(layer.scale);
  current_ = layer.fqn;
}

void MergedWeights::add_to(const HeldTensor& weight, int64_t begin,
                           std::span<float> values) {
  const auto found = layers_of_.find(weight.tensor->fqn);
  if (found == layers_of_.end()) return;
  if (current_ != found->second.fqn) read_factors(found->second);
  const int64_t columns = weight.tensor->shape.at(1),
                end = begin + static_cast<int64_t>(values.size());
  std::vector<float> sums(static_cast<size_t>(columns));
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / columns, first = at % columns,
                  count = std::min(columns - first, end - at);
    std::fill_n(sums.begin(), count, 0.0f);
    for (int64_t k = 0; k < factors_.r; ++k) {
      const float left = factors_.left[row * factors_.r + k];
      const float* const right = factors_.right.data() + k * columns + first;
      for (int64_t j = 0; j < count; ++j) sums[j] += left * right[j];
    }
    float* const out = values.data() + (at - begin);
    for (int64_t j = 0; j < count; ++j) out[j] += sums[j];
    at += count;
  }
}

}  // namespace zero::launcher
