#include "zero/wrap.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/names.h"
#include "engine/unit/made_units.h"
#include "engine/unit/model_scan.h"
#include "engine/weights/torch/flat_params.h"
#include "zero/errors.h"

namespace zero {
namespace {

using torch::nn::AnyModule;
using torch::nn::Module;

// A module below the one that is wrapped, wherever it is held.
struct Found {
  std::string fqn;  // the first
  std::shared_ptr<Module> module;
  std::vector<AnyModule*> entries;  // what Sequentials call
  std::string obstacle;             // why it cannot be a unit; empty: it can
  bool is_named = false;            // by one of WrapPolicy::names
  bool becomes_unit = false;
};

class Wrapper {
 public:
  Wrapper(Module& root, const WrapPolicy& policy) : root_(root), policy_(policy) {
    visit(root, "", std::vector<bool>(policy.names.size(), true));
    for (Found* found : inner_first_) found->becomes_unit = is_chosen(*found);
    require_chosen();
  }

  std::vector<std::string> make_units() {
    std::vector<std::string> fqns;
    for (const Module* module : in_order_) {
      const Found& found = found_.at(module);
      if (!found.becomes_unit) continue;
      const std::shared_ptr<UnitHook> hook = make_unit(*found.module);
      for (AnyModule* entry : found.entries) call_as_unit(*entry, hook, found.fqn);
      fqns.push_back(found.fqn);
    }
    return fqns;
  }

 private:
  bool is_by_size() const { return policy_.types.empty() && policy_.names.empty(); }
  bool type_fits(const Module& module) const {
    return policy_.types.empty() ||
           std::ranges::count(policy_.types, class_name(module)) > 0;
  }

  // `may_match`: of each name's pattern, that nothing around was chosen by it.
  void visit(Module& owner, const std::string& fqn, const std::vector<bool>& may_match) {
    for (const auto& item : owner.named_children()) {
      const std::string name = fqn.empty() ? item.key() : fqn + "." + item.key();
      const auto [at, is_new] = found_.try_emplace(item.value().get());
      Found& found = at->second;
      if (is_new) {
        found.fqn = name;
        found.module = item.value();
        in_order_.push_back(item.value().get());
      }
      add_place(found, owner, fqn);
      visit(*item.value(), name, match(found, name, may_match));
      if (is_new) inner_first_.push_back(&found);
    }
  }

  void add_place(Found& found, Module& owner, const std::string& owner_fqn) {
    if (hook_of(*found.module)) {
      found.obstacle = "it is a unit already";
      return;
    }
    bool is_entry = dynamic_cast<torch::nn::ModuleListImpl*>(&owner) != nullptr;
    if (auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&owner)) {
      for (AnyModule& entry : *sequential) {
        if (entry.ptr() != found.module) continue;
        is_entry = true;
        if (std::ranges::count(found.entries, &entry) == 0)
          found.entries.push_back(&entry);
      }
    }
    if (is_entry) return;
    found.obstacle = "its owner, " + (owner_fqn.empty() ? "the model" : owner_fqn) +
                     " (" + class_name(owner) + "), calls it itself";
  }

  // What of the patterns may still match inside.
  std::vector<bool> match(Found& found, const std::string& fqn,
                          std::vector<bool> may_match) {
    for (size_t i = 0; i < may_match.size(); ++i) {
      const bool is_it = policy_.names[i] == fqn;
      if (!may_match[i] || !type_fits(*found.module) ||
          !glob_match(policy_.names[i], fqn))
        continue;
      if (!found.obstacle.empty() && !is_it) continue;
      found.is_named = true;
      may_match[i] = false;
      used_.insert(i);
    }
    return may_match;
  }

  bool is_chosen(const Found& found) const {
    if (!type_fits(*found.module) || (!policy_.names.empty() && !found.is_named))
      return false;
    if (is_by_size() && !found.obstacle.empty()) return false;
    std::set<const c10::TensorImpl*> params;
    add_params(*found.module, params);
    int64_t numel = 0;
    for (const c10::TensorImpl* param : params) numel += param->numel();
    return numel >= policy_.min_numel;
  }

  // Those that units inside do not hold.
  void add_params(Module& module, std::set<const c10::TensorImpl*>& params) const {
    for (const at::Tensor& param : module.parameters(/*recurse=*/false)) {
      if (param.defined()) params.insert(param.unsafeGetTensorImpl());
    }
    for (const std::shared_ptr<Module>& child : module.children()) {
      if (!found_.at(child.get()).becomes_unit && !hook_of(*child))
        add_params(*child, params);
    }
  }

  void require_chosen() const {
    std::string problems;
    bool any = false;
    for (const Module* module : in_order_) {
      const Found& found = found_.at(module);
      any = any || found.becomes_unit;
      if (found.becomes_unit && !found.obstacle.empty())
        problems +=
            "\n  - " + found.fqn + " (" + class_name(*module) + "): " + found.obstacle;
    }
    if (!problems.empty())
      reject("modules that the policy chooses cannot be units:" + problems, "zero::wrap",
             "make it an entry of a torch::nn::Sequential or ModuleList, or a zero::Unit "
             "in its owner; or a policy that leaves it out (WrapPolicy::names)");
    require_known();
    if (any) return;
    reject("the policy makes no unit", "zero::wrap",
           "a smaller WrapPolicy::min_numel; entries of torch::nn::Sequential and "
           "ModuleList can be units");
  }

  void require_known() const {
    for (const std::string& type : policy_.types) {
      if (std::ranges::any_of(in_order_, [&](const Module* module) {
            return class_name(*module) == type;
          }))
        continue;
      reject("no module is a " + type, "WrapPolicy::types",
             "a class without its namespace, as that of " +
                 (in_order_.empty()
                      ? class_name(root_)
                      : found_.at(in_order_[0]).fqn + ", " + class_name(*in_order_[0])));
    }
    for (size_t i = 0; i < policy_.names.size(); ++i) {
      if (used_.contains(i)) continue;
      reject("'" + policy_.names[i] + "' matches no entry that can be a unit" +
                 obstacle_of(policy_.names[i]),
             "WrapPolicy::names",
             "* stands for any text; entries of torch::nn::Sequential and ModuleList "
             "can be units");
    }
  }

  // Of the first module that the pattern matches.
  std::string obstacle_of(const std::string& pattern) const {
    for (const Module* module : in_order_) {
      const Found& found = found_.at(module);
      if (glob_match(pattern, found.fqn) && !found.obstacle.empty())
        return ": " + found.fqn + " cannot, " + found.obstacle;
    }
    return "";
  }

  Module& root_;
  const WrapPolicy& policy_;
  std::map<const Module*, Found> found_;
  std::vector<const Module*> in_order_;
  std::vector<Found*> inner_first_;
  std::set<size_t> used_;  // of the policy's names
};

void require_free(const Module& module) {
  for (const auto& item : module.named_parameters()) {
    if (!item.value().defined() || !is_flat(item.value())) continue;
    reject("a module that belongs to a zero::Engine cannot be wrapped", item.key(),
           "zero::wrap() before the engine is made");
  }
}

}  // namespace

std::vector<std::string> wrap(Module& module, const WrapPolicy& policy) {
  if (policy.types.empty() && policy.names.empty() && policy.min_numel <= 0)
    reject("a policy that says nothing", "zero::wrap",
           "WrapPolicy::types, names or min_numel");
  require_free(module);
  return Wrapper(module, policy).make_units();
}

void detail::refuse_entry(const Module& entry, size_t index,
                          const std::type_info& expected) {
  reject("entry " + std::to_string(index) + " is a " + class_name(entry) + ", no " +
             c10::demangle(expected.name()),
         "zero::units_of", "the class of the list's entries, or a base of theirs");
}

}  // namespace zero
