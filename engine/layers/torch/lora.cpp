#include "zero/lora.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/names.h"
#include "base/text.h"
#include "zero/errors.h"
#include "zero/linear.h"

namespace zero {
namespace {

using NamedModule = std::pair<std::string, torch::nn::Module*>;

bool names_module(const std::string& name, const std::string& fqn) {
  return glob_match(name, fqn) || glob_match("*." + name, fqn);
}

bool names_module(const ModuleNames& names, const std::string& fqn) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return names_module(name, fqn); });
}

// Of a layer: what the names that match say, else `otherwise`.
template <class T>
T value_for(const std::map<std::string, T>& values, const std::string& fqn, T otherwise) {
  const T* found = nullptr;
  for (const auto& [name, value] : values) {
    if (!names_module(name, fqn)) continue;
    if (found && *found != value)
      reject("two names give one layer different values", fqn,
             "names of which one alone matches it");
    found = &value;
  }
  return found ? *found : otherwise;
}

template <class T>
ModuleNames names_of(const std::map<std::string, T>& values) {
  ModuleNames names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

void require_matches(const ModuleNames& names, const std::vector<NamedModule>& modules,
                     const std::string& kind, const std::string& option) {
  for (const std::string& name : names) {
    const bool matches = std::ranges::any_of(modules, [&](const NamedModule& module) {
      return names_module(name, module.first);
    });
    if (matches) continue;
    reject("'" + name + "' matches no " + kind + " of the model", option,
           modules.empty() ? "a model with such layers (<zero/linear.h>)"
                           : "names look like " + modules.front().first);
  }
}

}  // namespace

// What add_lora() finds out before it changes anything, and then does.
class LoraAdder {
 public:
  LoraAdder(torch::nn::Module& model, const LoraOptions& options) : options_(options) {
    for (const auto& item : model.named_modules("", /*include_self=*/false))
      modules_.emplace_back(item.key(), item.value().get());
    check_lora(options);
    find_targets();
    require_matches(options.modules_to_save, modules_, "module", "modules_to_save");
    require_matches(names_of(options.ranks), targets_, "target", "ranks");
    require_matches(names_of(options.alphas), targets_, "target", "alphas");
    for (const auto& [fqn, module] : targets_) numbers_of(fqn);
  }

  std::vector<std::string> add(torch::nn::Module& model) {
    for (const at::Tensor& parameter : model.parameters())
      parameter.set_requires_grad(false);
    for (const auto& [fqn, module] : modules_) {
      if (!names_module(options_.modules_to_save, fqn)) continue;
      for (const at::Tensor& parameter : module->parameters())
        parameter.set_requires_grad(true);
    }
    std::vector<std::string> fqns;
    for (const auto& [fqn, module] : targets_) {
      adapt(*module, fqn);
      fqns.push_back(fqn);
    }
    return fqns;
  }

 private:
  bool takes_all() const {
    return std::ranges::count(options_.targets, std::string(LoraOptions::kAllLinear)) > 0;
  }

  void find_targets() {
    std::vector<NamedModule> layers;
    std::string plain;
    std::set<torch::nn::Module*> seen;  // one may be held under two names
    for (const NamedModule& each : modules_) {
      const auto& [fqn, module] = each;
      const bool is_wanted =
          (takes_all() || names_module(options_.targets, fqn)) && !is_saved(fqn);
      if (const auto* layer = dynamic_cast<LoraLayer*>(module)) {
        if (layer->has_lora())
          reject("this model has adapters already", fqn, "add_lora()");
        layers.push_back(each);
        if (is_wanted && seen.insert(module).second) targets_.push_back(each);
      } else if (is_wanted && dynamic_cast<torch::nn::LinearImpl*>(module)) {
        plain += (plain.empty() ? "" : ", ") + fqn;
      }
    }
    if (!plain.empty())
      reject("torch::nn::Linear cannot have an adapter, as its forward is not virtual",
             plain, "zero::Linear of <zero/linear.h> in its place, or other targets");
    if (!takes_all())
      require_matches(options_.targets, layers, "linear layer", "targets");
    if (targets_.empty())
      reject("the model has no layer that can have an adapter", "targets",
             "zero::Linear of <zero/linear.h>, outside of modules_to_save");
  }

  // It, or a module that it is in: as in peft, what is trained as a whole has no
  // adapters.
  bool is_saved(const std::string& fqn) const {
    for (size_t dot = fqn.find('.'); dot != fqn.npos; dot = fqn.find('.', dot + 1))
      if (names_module(options_.modules_to_save, fqn.substr(0, dot))) return true;
    return names_module(options_.modules_to_save, fqn);
  }

  // Rank and alpha of a layer.
  std::pair<int64_t, double> numbers_of(const std::string& fqn) const {
    return {value_for(options_.ranks, fqn, options_.r),
            value_for(options_.alphas, fqn, options_.alpha)};
  }

  void adapt(torch::nn::Module& module, const std::string& fqn) const {
    auto& layer = dynamic_cast<LoraLayer&>(module);
    const LoraLayer::Shape shape = layer.lora_shape();
    const auto [r, alpha] = numbers_of(fqn);
    const double bound = 1 / std::sqrt(static_cast<double>(shape.in));
    layer.scale_ = alpha / (options_.rslora ? std::sqrt(static_cast<double>(r))
                                            : static_cast<double>(r));
    layer.dropout_ = options_.dropout;
    layer.a_ = std::make_shared<LoraFactorImpl>(
        torch::empty({r, shape.in}, at::kFloat).uniform_(-bound, bound));
    layer.b_ = std::make_shared<LoraFactorImpl>(torch::zeros({shape.out, r}, at::kFloat));
    module.register_module("lora_A", layer.a_);
    module.register_module("lora_B", layer.b_);
    layer.a_->train(module.is_training());
    layer.b_->train(module.is_training());
  }

  const LoraOptions& options_;
  std::vector<NamedModule> modules_, targets_;
};

void check_lora(const LoraOptions& options) {
  const auto require_rank = [](int64_t r) {
    if (r < 1)
      reject("the rank of an adapter is " + std::to_string(r), "r", "a number from 1 on");
  };
  const auto require_alpha = [](double alpha) {
    if (!(alpha > 0) || !std::isfinite(alpha))
      reject("alpha is " + std::to_string(alpha), "alpha", "a number above 0");
  };
  require_rank(options.r);
  require_alpha(options.alpha);
  for (const auto& [name, r] : options.ranks) require_rank(r);
  for (const auto& [name, alpha] : options.alphas) require_alpha(alpha);
  if (!(options.dropout >= 0 && options.dropout < 1))
    reject("dropout is " + std::to_string(options.dropout), "dropout",
           "a number from 0 to below 1");
  if (options.targets.empty())
    reject("no layer is to have an adapter", "targets",
           std::string("names of layers, or ") + LoraOptions::kAllLinear);
}

std::vector<std::string> add_lora(torch::nn::Module& model, const LoraOptions& options) {
  return LoraAdder(model, options).add(model);
}

std::vector<LoraTarget> lora_targets(const torch::nn::Module& model) {
  std::vector<LoraTarget> targets;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const auto* layer = dynamic_cast<const LoraLayer*>(item.value().get());
    if (!layer) continue;
    const LoraLayer::Shape shape = layer->lora_shape();
    targets.push_back({item.key(), shape.in, shape.out, shape.is_transposed,
                       layer->lora_rank(), layer->lora_scale(),
                       layer->lora_dropout() > 0});
  }
  return targets;
}

at::Tensor LoraLayer::adapted(const at::Tensor& y, const at::Tensor& x) const {
  if (!a_) return y;
  const at::ScalarType type = a_->weight.scalar_type();
  at::Tensor low = x.to(type);
  if (dropout_ > 0 && a_->is_training()) low = at::dropout(low, dropout_, true);
  low = linear(low, a_->weight, at::Tensor()) * scale_;
  return (y + linear(low, b_->weight, at::Tensor())).to(y.scalar_type());
}

std::shared_ptr<torch::nn::Module> LinearImpl::clone(
    const std::optional<torch::Device>& device) const {
  if (has_lora())
    reject("a layer with an adapter is cloned", "zero::Linear",
           "clone before add_lora()");
  const torch::NoGradGuard no_grad;
  auto copy = std::make_shared<LinearImpl>(options);
  const auto take = [&](at::Tensor& to, const at::Tensor& from) {
    if (!from.defined()) return;
    to.set_data(device ? from.to(*device, /*non_blocking=*/false, /*copy=*/true)
                       : from.clone());
    to.set_requires_grad(from.requires_grad());
  };
  take(copy->weight, weight);
  take(copy->bias, bias);
  copy->train(is_training());
  return copy;
}

}  // namespace zero
