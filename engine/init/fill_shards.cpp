#include "engine/init/fill_shards.h"

#include <torch/torch.h>

#include <algorithm>
#include <optional>

#include "checkpoint/names.h"
#include "engine/activity.h"
#include "engine/errors.h"
#include "engine/init/deferred_init.h"

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

// How torch's own layers initialise their parameter `name`, as an InitSpec. Nothing for
// other modules.
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

std::optional<InitSpec> spec_of(const ScannedModel& model, size_t param,
                                const InitRules& rules) {
  for (const auto& [pattern, spec] : rules) {
    for (const std::string& name : model.params[param].names) {
      if (checkpoint::glob_match(pattern, name)) return spec;
    }
  }
  const std::string& fqn = model.params[param].fqn;
  return default_init(*model.owners[param], fqn.substr(fqn.rfind('.') + 1));
}

struct Filler {
  const ScannedModel& model_;
  const UnitPlan& plan_;
  const Options& options_;
  ShardStore& shards_;
  Ranks& ranks_;
  ThreadPool& threads_;

  void run() {
    const std::vector<std::optional<InitSpec>> specs = choose_specs();
    const Activity::Stretch stretch("first values");
    for (size_t i = 0; i < model_.params.size(); ++i) {
      Activity::here().sign();
      specs[i] ? fill_from_spec(*specs[i], i) : fill_from_tensor(i);
    }
    for (size_t i = 0; i < model_.buffers.size(); ++i) fill_buffer(i);
  }

  std::vector<std::optional<InitSpec>> choose_specs() const {
    std::vector<std::optional<InitSpec>> specs(model_.params.size());
    std::string missing;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (!is_deferred(model_.tensors[i])) continue;
      specs[i] = spec_of(model_, i, options_.init);
      if (!specs[i]) missing += (missing.empty() ? "" : ", ") + model_.params[i].fqn;
    }
    if (missing.empty()) return specs;
    throw Error(ExitCode::kUsage, "nothing says how these deferred parameters start",
                missing, "add a pattern and an InitSpec for them to Options::init");
  }

  // Let `make(first element in the parameter, values)` set this rank's slice, if it has
  // one, on all threads.
  template <class Make>
  void set_slice(size_t param, const Make& make) {
    const ParamPlace& place = plan_.places[param];
    for (const Piece& piece : pieces_of(plan_.parts[place.part].layout, ranks_.rank())) {
      if (piece.param != place.index) continue;
      const StoredValues masters =
          shards_[place.part].masters(piece.shard_begin, piece.numel);
      threads_.parallel_for(piece.numel, 1 << 16, [&](int64_t first, int64_t last) {
        masters.set(first, last - first, [&](std::span<float> values) {
          make(piece.param_begin + first, values);
        });
      });
    }
  }

  void fill_from_spec(const InitSpec& spec, size_t param) {
    set_slice(param, [&](int64_t begin, std::span<float> values) {
      fill(spec, options_.seed, model_.params[param].fqn, begin, values);
    });
  }

  void fill_from_tensor(size_t param) {
    const at::Tensor full =
        from_rank_0(model_.tensors[param].detach().to(at::kCPU, at::kFloat),
                    model_.params[param].fqn);
    set_slice(param, [&](int64_t begin, std::span<float> values) {
      std::copy_n(full.data_ptr<float>() + begin, values.size(), values.data());
    });
  }

  void fill_buffer(size_t i) {
    at::Tensor buffer = model_.buffers[i];
    if (is_deferred(buffer)) materialize(buffer);
    if (ranks_.size() == 1) return;
    const at::Tensor own = buffer.cpu();
    const at::Tensor first = from_rank_0(own, model_.buffer_fqns[i]);
    if (!own.equal(first)) buffer.copy_(first);
  }

  // The values of rank 0; those of this rank stay.
  at::Tensor from_rank_0(const at::Tensor& values, const std::string& fqn) {
    if (ranks_.size() == 1 || values.numel() == 0) return values.contiguous();
    const at::Tensor received = values.clone(at::MemoryFormat::Contiguous);
    ranks_.broadcast(received.data_ptr(), static_cast<int64_t>(received.nbytes()), 0,
                     fqn);
    return received;
  }
};

}  // namespace

void fill_shards(const ScannedModel& model, const UnitPlan& plan, const Options& options,
                 ShardStore& shards, Ranks& ranks, ThreadPool& threads) {
  torch::NoGradGuard no_grad;
  Filler{model, plan, options, shards, ranks, threads}.run();
}

}  // namespace zero
