#include "engine/init/module_init.h"

#include <torch/torch.h>

namespace zero {
namespace {

namespace nn = torch::nn;

template <class... Modules>
bool is_any(const nn::Module& module) {
  return (... || (dynamic_cast<const Modules*>(&module) != nullptr));
}

int64_t fan_in_of(const at::Tensor& weight) {
  return weight.numel() / std::max<int64_t>(1, weight.size(0));
}

template <class Embedding>
std::optional<InitSpec> embedding_init(const nn::Module& module) {
  const auto* embedding = dynamic_cast<const Embedding*>(&module);
  if (!embedding) return {};
  InitSpec spec = normal(0, 1);
  if (const auto padding = embedding->options.padding_idx()) {
    const int64_t row = *padding < 0 ? *padding + embedding->weight.size(0) : *padding;
    spec.zero_row_begin = row * embedding->weight.size(1);
    spec.zero_row_end = spec.zero_row_begin + embedding->weight.size(1);
  }
  return spec;
}

}  // namespace

std::optional<InitSpec> default_init(const nn::Module& module, const std::string& name) {
  if (is_any<nn::LayerNormImpl, nn::GroupNormImpl, nn::BatchNorm1dImpl,
             nn::BatchNorm2dImpl, nn::BatchNorm3dImpl, nn::InstanceNorm1dImpl,
             nn::InstanceNorm2dImpl, nn::InstanceNorm3dImpl>(module)) {
    return name == "weight" ? ones() : zeros();
  }
  if (is_any<nn::LinearImpl, nn::BilinearImpl, nn::Conv1dImpl, nn::Conv2dImpl,
             nn::Conv3dImpl, nn::ConvTranspose1dImpl, nn::ConvTranspose2dImpl,
             nn::ConvTranspose3dImpl>(module)) {
    const at::Tensor weight = module.named_parameters(/*recurse=*/false)["weight"];
    return kaiming_uniform(is_any<nn::BilinearImpl>(module) ? weight.size(1)
                                                            : fan_in_of(weight));
  }
  if (auto spec = embedding_init<nn::EmbeddingImpl>(module)) return spec;
  return embedding_init<nn::EmbeddingBagImpl>(module);
}

}  // namespace zero
