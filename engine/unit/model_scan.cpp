#include "engine/unit/model_scan.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/Type.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/unit/batch_norm_ranks.h"
#include "engine/unit/ignored_params.h"
#include "zero/errors.h"
#include "zero/linear.h"

namespace zero {
namespace {

class Scanner {
 public:
  ScannedModel scan(torch::nn::Module& root) {
    model_.units.push_back({"", class_name(root), -1});
    model_.hooks.push_back(nullptr);
    model_.modules.push_back({&root});
    find_units(root, "", 0);
    find_companions();
    visit(root, "", 0);
    require_companions();
    return std::move(model_);
  }

 private:
  // Batch norm and its kind compute in the type of their running statistics.
  static bool has_statistics(const torch::nn::Module& module) {
    using namespace torch::nn;
    return is_plain_batch_norm(module) || dynamic_cast<const BatchNormBase*>(&module) ||
           dynamic_cast<const InstanceNorm1dImpl*>(&module) ||
           dynamic_cast<const InstanceNorm2dImpl*>(&module) ||
           dynamic_cast<const InstanceNorm3dImpl*>(&module);
  }

  // Before values: one may travel with a unit that comes later.
  void find_units(torch::nn::Module& module, const std::string& prefix, int unit) {
    for (const auto& item : module.named_children()) {
      torch::nn::Module& child = *item.value();
      UnitHook* const hook = hook_of(child);
      int inner = unit;
      if (hook && seen_units_.contains(hook)) {
        inner = seen_units_[hook];
        add_holder(inner, unit);
      } else if (hook) {
        inner = static_cast<int>(model_.units.size());
        seen_units_[hook] = inner;
        model_.units.push_back({prefix + item.key(), class_name(child), unit});
        model_.hooks.push_back(hook);
        model_.modules.push_back({&child});
      }
      find_units(child, prefix + item.key() + ".", inner);
    }
  }

  void find_companions() {
    for (size_t u = 1; u < model_.hooks.size(); ++u) {
      for (const auto& module : model_.hooks[u]->companions) {
        if (!module)
          reject("no module", "Unit::take_along() of " + model_.units[u].fqn,
                 "give it one that is registered beside the unit");
        add_companion(*module, static_cast<int>(u));
      }
    }
  }

  void add_companion(torch::nn::Module& module, int unit) {
    for (const auto& inner : module.modules()) {
      if (hook_of(*inner)) refuse_companion("is a unit, or holds one", module, unit);
      const auto [known, is_new] = companions_.try_emplace(inner.get(), unit);
      if (!is_new)
        refuse_companion("travels with " + model_.units[known->second].fqn + ", too",
                         module, unit);
    }
    model_.modules[unit].push_back(&module);
  }

  void require_companions() const {
    for (const auto& [module, unit] : companions_) {
      if (!seen_companions_.contains(module))
        refuse_companion("is not in the model", *module, unit);
    }
  }

  [[noreturn]] void refuse_companion(const std::string& problem,
                                     const torch::nn::Module& module, int unit) const {
    reject("a module that a unit takes along " + problem,
           class_name(module) + " with " + model_.units[unit].fqn,
           "Unit::take_along() a module that is registered beside the unit, once");
  }

  void visit(torch::nn::Module& module, const std::string& prefix, int unit) {
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      if (item.value().defined())
        add_param(module, prefix + item.key(), item.value(), unit);
    }
    for (const auto& item : module.named_buffers(/*recurse=*/false)) {
      if (!item.value().defined()) continue;
      if (item.value().layout() != at::kStrided)
        reject("a sparse buffer", prefix + item.key(),
               "register its dense value, or its indices and values");
      model_.buffer_fqns.push_back(prefix + item.key());
      model_.buffers.push_back(item.value());
    }
    for (const auto& item : module.named_children())
      visit(*item.value(), prefix + item.key() + ".", owner_of(*item.value(), unit));
  }

  // The unit that a module belongs to, which is held by what belongs to `outer`.
  int owner_of(torch::nn::Module& module, int outer) {
    if (UnitHook* const hook = hook_of(module)) return seen_units_.at(hook);
    const auto companion = companions_.find(&module);
    if (companion == companions_.end()) return outer;
    seen_companions_.insert(&module);
    return companion->second;
  }

  // A unit in a second place: what encloses it now is what both places have in common.
  void add_holder(int shared, int holder) {
    UnitDescription& unit = model_.units[shared];
    if (unit.holders.empty()) unit.holders.push_back(unit.parent);
    if (std::find(unit.holders.begin(), unit.holders.end(), holder) == unit.holders.end())
      unit.holders.push_back(holder);
    std::set<int> enclosing;
    for (int outer = unit.parent; outer >= 0; outer = model_.units[outer].parent)
      enclosing.insert(outer);
    while (!enclosing.contains(holder)) holder = model_.units[holder].parent;
    unit.parent = holder;
  }

  void add_param(torch::nn::Module& owner, const std::string& fqn,
                 const at::Tensor& tensor, int unit) {
    const auto [known, is_new] =
        seen_params_.try_emplace(tensor.unsafeGetTensorImpl(), model_.params.size());
    if (!is_new) {
      model_.params[known->second].names.push_back(fqn);
      model_.params[known->second].units.push_back(unit);
      return;
    }
    const bool is_adapter = dynamic_cast<LoraFactorImpl*>(&owner) != nullptr;
    model_.params.push_back({.fqn = fqn,
                             .shape = tensor.sizes().vec(),
                             .names = {fqn},
                             .units = {unit},
                             .requires_grad = tensor.requires_grad(),
                             .stays_fp32 = is_adapter || has_statistics(owner),
                             .is_adapter = is_adapter});
    model_.tensors.push_back(tensor);
  }

  ScannedModel model_;
  std::map<UnitHook*, int> seen_units_;
  std::map<torch::nn::Module*, int> companions_;  // and the units that they travel with
  std::set<torch::nn::Module*> seen_companions_;
  std::map<c10::TensorImpl*, size_t> seen_params_;
};

// Memory that a tensor's elements lie in.
struct MemoryRange {
  const void* storage;  // where it has no memory: what is deferred or released
  const char* begin;
  const char* end;
  const std::string* fqn;
  bool is_buffer;
};

MemoryRange range_of(const at::Tensor& tensor, const std::string& fqn, bool is_buffer) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto* memory =
      static_cast<const char*>(storage->_mutable_data_ptr_no_checks().get());
  const char* begin = memory + tensor.storage_offset() * tensor.element_size();
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += (tensor.size(d) - 1) * tensor.stride(d);
  return {memory ? nullptr : storage, begin, begin + (last + 1) * tensor.element_size(),
          &fqn, is_buffer};
}

[[noreturn]] void refuse_shared(const MemoryRange& one, const MemoryRange& other) {
  const std::string both = *one.fqn + ", " + *other.fqn;
  if (one.is_buffer || other.is_buffer)
    reject("a buffer shares memory with a parameter, and would keep its first values",
           both, "give the buffer a copy, or make it of the parameter in forward");
  reject("parameters share memory, and would be trained as two", both,
         "register one tensor under both names, which ties them, or give each a copy");
}

// Each is trained as values of its own, which they must be. Buffers may share with each
// other.
void require_own_memory(const ScannedModel& model) {
  std::vector<MemoryRange> ranges;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const at::Tensor& tensor = model.tensors[i];
    const std::string& fqn = model.params[i].fqn;
    if (tensor.layout() != at::kStrided)
      reject("a sparse parameter", fqn, "register its dense value");
    if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
      reject("elements of a parameter share memory, as those of an expanded one do", fqn,
             "register a contiguous() copy of it, or the small one that it was made of");
    if (tensor.numel() > 0) ranges.push_back(range_of(tensor, fqn, false));
  }
  for (size_t i = 0; i < model.buffers.size(); ++i) {
    const at::Tensor& tensor = model.buffers[i];
    if (tensor.layout() == at::kStrided && tensor.has_storage() && tensor.numel() > 0)
      ranges.push_back(range_of(tensor, model.buffer_fqns[i], true));
  }
  std::ranges::sort(ranges, {}, [](const MemoryRange& range) {
    return std::pair(range.storage, range.begin);
  });
  // Of those before, the one that reaches farthest.
  const MemoryRange *param = nullptr, *buffer = nullptr;
  for (const MemoryRange& range : ranges) {
    for (const MemoryRange* before : {param, range.is_buffer ? nullptr : buffer})
      if (before && before->storage == range.storage && before->end > range.begin)
        refuse_shared(*before, range);
    const MemoryRange*& farthest = range.is_buffer ? buffer : param;
    if (!farthest || farthest->storage != range.storage || farthest->end < range.end)
      farthest = &range;
  }
}

// As make_unit_plan() asks of parameters.
void check_buffer_names(const ScannedModel& model) {
  std::set<std::string> names;
  for (const ParamDescription& param : model.params)
    names.insert(param.names.begin(), param.names.end());
  for (const std::string& fqn : model.buffer_fqns) {
    check_fqn(fqn);
    if (!names.contains(fqn)) continue;
    reject("a parameter and a buffer have the same name", fqn,
           "register them under different names");
  }
}

}  // namespace

std::string class_name(const torch::nn::Module& module) {
  std::string name = c10::demangle(typeid(module).name());
  const std::string wrapper = "UnitModule<";
  if (const size_t at = name.find(wrapper); at != std::string::npos) {
    name = name.substr(at + wrapper.size());
    name = name.substr(0, name.find_last_of('>'));
  }
  const size_t templated = name.find('<');
  const size_t colon = name.rfind("::", templated);
  return colon == std::string::npos ? name : name.substr(colon + 2);
}

ScannedModel scan_model(torch::nn::Module& root, const std::vector<Ignored>& ignored) {
  ScannedModel model = Scanner().scan(root);
  std::string wrong;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const at::ScalarType type = model.tensors[i].scalar_type();
    if (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) continue;
    wrong += (wrong.empty() ? "" : ", ") + model.params[i].fqn + " (" +
             c10::toString(type) + ")";
  }
  if (!wrong.empty())
    reject("parameters must be float, bfloat16 or half", wrong,
           "register other tensors as buffers");
  require_own_memory(model);
  leave_out(model, ignored);
  check_buffer_names(model);
  return model;
}

}  // namespace zero
