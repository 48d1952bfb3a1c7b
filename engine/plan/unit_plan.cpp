#include "engine/plan/unit_plan.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <tuple>

#include "base/names.h"
#include "base/text.h"
#include "zero/errors.h"

namespace zero {
namespace {

bool is_selected(const UnitDescription& unit, int64_t numel, const AutoWrap& wrap) {
  const bool type_fits =
      wrap.types.empty() || std::ranges::count(wrap.types, unit.type) > 0;
  return type_fits && numel >= wrap.min_numel;
}

void check_wrap_types(const std::vector<UnitDescription>& units, const AutoWrap& wrap) {
  for (const std::string& type : wrap.types) {
    if (std::ranges::count(units, type, &UnitDescription::type) > 0) continue;
    reject("no zero::Unit of the model is a " + type, "auto_wrap types",
           "name the class held by a Unit");
  }
}

// Parents come before what they hold: the later of two cannot hold the other one.
int common_ancestor(const std::vector<UnitDescription>& units, int a, int b) {
  while (a != b) {
    if (a < b) std::swap(a, b);
    a = units[a].parent;
  }
  return a;
}

int owner_of(const std::vector<UnitDescription>& units, const ParamDescription& param) {
  int owner = param.units.front();
  for (const int unit : param.units) owner = common_ancestor(units, owner, unit);
  return owner;
}

// Elements below each holder, nested holders included: what min_numel is compared with.
std::vector<int64_t> subtree_numels(const std::vector<UnitDescription>& units,
                                    const std::vector<ParamDescription>& params) {
  std::vector<int64_t> numels(units.size(), 0);
  for (const ParamDescription& param : params) {
    for (int unit = owner_of(units, param); unit >= 0; unit = units[unit].parent) {
      numels[unit] += ParamShape{param.fqn, param.shape}.numel();
    }
  }
  return numels;
}

// Index of the first matching group; -1 when none does.
int group_of(const std::vector<ParamGroup>& groups, const std::string& fqn) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (glob_match(groups[i].pattern, fqn)) return static_cast<int>(i);
  }
  return -1;
}

bool are_alike(const ParamGroup& a, const ParamGroup& b) {
  if (a.frozen || b.frozen) return a.frozen && b.frozen;
  return a.lr_scale == b.lr_scale && a.weight_decay == b.weight_decay;
}

// Any name of a tied parameter counts. `used` gets all groups that one is in.
int group_of(const std::vector<ParamGroup>& groups, const ParamDescription& param,
             std::set<int>& used) {
  int group = -1;
  std::string matched;
  for (const std::string& name : param.names) {
    const int other = group_of(groups, name);
    if (other < 0) continue;
    used.insert(other);
    if (group >= 0 && !are_alike(groups[group], groups[other]))
      reject("one tied parameter is in two parameter groups that differ",
             matched + " in '" + groups[group].pattern + "', " + name + " in '" +
                 groups[other].pattern + "'",
             "let one group name it, under any of its names");
    if (group < 0) group = other, matched = name;
  }
  return group;
}

// The first pattern that names it, counted from 1; 0: none.
int thaw_of(const std::vector<std::string>& thaws, const ParamDescription& param) {
  const auto found = std::ranges::find_if(
      thaws, [&](const std::string& pattern) { return names(pattern, param); });
  return found == thaws.end() ? 0 : static_cast<int>(found - thaws.begin()) + 1;
}

ParamRule rule_of(const ParamDescription& param, int group, const Options& options) {
  const bool decays =
      options.weight_decay_on == WeightDecayOn::kAll || param.shape.size() >= 2;
  ParamRule rule{1, decays ? options.optimizer.weight_decay : 0, !param.requires_grad};
  if (group >= 0) {
    const ParamGroup& values = options.groups[group];
    rule.lr_scale = values.lr_scale;
    if (values.weight_decay) rule.weight_decay = *values.weight_decay;
    rule.frozen = rule.frozen || values.frozen;
  }
  rule.thaw = options.inference ? 0 : thaw_of(options.thaws, param);
  rule.frozen = rule.frozen && rule.thaw == 0;
  return rule;
}

void add_rules(UnitPlan& plan, const std::vector<ParamDescription>& params,
               const Options& options) {
  std::set<int> used;
  for (const ParamDescription& param : params) {
    const int group = group_of(options.groups, param, used);
    plan.groups.push_back(group);
    plan.rules.push_back(rule_of(param, group, options));
  }
  for (size_t i = 0; i < options.groups.size(); ++i) {
    if (used.contains(static_cast<int>(i))) continue;
    const ParamGroup& group = options.groups[i];
    reject("'" + group.pattern + "' matches no parameter" +
               (i > 0 ? " that patterns before it have left" : ""),
           "--group or --freeze (Options::groups)", looks_like(params));
  }
  for (const std::string& pattern : options.thaws) {
    if (std::ranges::none_of(
            params, [&](const ParamDescription& param) { return names(pattern, param); }))
      reject("'" + pattern + "' matches no parameter", "--unfreeze-at (Options::thaws)",
             looks_like(params));
  }
}

// How many planned units enclose this one where it lies deepest.
int planned_depth(const UnitPlan& plan, const std::vector<UnitDescription>& units,
                  int unit) {
  if (unit == 0) return 0;
  const bool is_planned = plan.units[plan.unit_of[unit]].description == unit;
  std::vector<int> holders = units[unit].holders;
  if (holders.empty()) holders.push_back(units[unit].parent);
  int depth = 0;
  for (const int holder : holders)
    depth = std::max(depth, planned_depth(plan, units, holder));
  return depth + is_planned;
}

// Lay out what the rules say of each parameter: per unit at most one part of each kind.
void add_parts(UnitPlan& plan, const std::vector<UnitDescription>& units,
               const std::vector<ParamDescription>& params, const Options& options) {
  // Trainable before frozen, always before later, the unit's type before fp32.
  using Kind = std::tuple<int, bool, int, bool>;  // unit, is frozen, thaw, stays fp32
  // Of a part of this type; evaluation rounds nothing that it does not compute with so.
  const auto kept_type = [&](bool is_frozen, DType dtype) {
    const bool has_no_master =
        options.inference ? options.frozen_dtype == dtype : is_frozen;
    return has_no_master ? options.frozen_dtype : DType::kFp32;
  };
  std::map<Kind, std::vector<int>> params_of;
  for (size_t i = 0; i < params.size(); ++i) {
    const int unit = plan.unit_of[owner_of(units, params[i])];
    const DType dtype = plan.units[unit].dtype;
    const bool stays_fp32 =
        params[i].stays_fp32 &&
        (dtype != DType::kFp32 || kept_type(plan.rules[i].frozen, dtype) != DType::kFp32);
    params_of[{unit, plan.rules[i].frozen, plan.rules[i].thaw, stays_fp32}].push_back(
        static_cast<int>(i));
  }
  plan.places.resize(params.size());
  for (const auto& [kind, of_part] : params_of) {
    const auto [unit, is_frozen, thaw, stays_fp32] = kind;
    std::vector<ParamShape> shapes;
    for (const int i : of_part) {
      plan.places[i] = {static_cast<int>(plan.parts.size()),
                        static_cast<int>(shapes.size())};
      shapes.push_back({params[i].fqn, params[i].shape});
    }
    const std::string& fqn = plan.units[unit].fqn;
    const DType dtype = stays_fp32 ? DType::kFp32 : plan.units[unit].dtype;
    plan.units[unit].parts.push_back(static_cast<int>(plan.parts.size()));
    plan.parts.push_back(
        {unit, is_frozen, dtype, stays_fp32 ? DType::kFp32 : kept_type(is_frozen, dtype),
         lay_out(std::move(shapes), plan.mesh), of_part,
         (fqn.empty() ? "(root)" : fqn) + (is_frozen ? " (frozen)" : "") +
             (thaw > 0 ? " (thaws " + std::to_string(thaw) + ")" : "") +
             (stays_fp32 ? " (fp32)" : "")});
  }
}

}  // namespace

bool names(const std::string& pattern, const ParamDescription& param) {
  return std::ranges::any_of(
      param.names, [&](const std::string& name) { return glob_match(pattern, name); });
}

std::string looks_like(const std::vector<ParamDescription>& params) {
  return "* stands for any text; names look like " +
         (params.empty() ? std::string("...") : params.front().fqn);
}

void check_fqn(const std::string& fqn) {
  std::string fault = flaw_of_name(fqn);
  const bool has_gap =
      fqn.find("..") != std::string::npos || fqn.starts_with('.') || fqn.ends_with('.');
  if (fault.empty() && has_gap) fault = "the name has an empty component";
  if (fault.empty()) return;
  reject("a tensor of this name cannot be saved: " + fault,
         printable(fqn.substr(0, 64)) + (fqn.size() > 64 ? "..." : ""),
         "register it under a name that can be a key of a checkpoint");
}

UnitPlan make_unit_plan(const std::vector<UnitDescription>& units,
                        const std::vector<ParamDescription>& params,
                        const Options& options, const Mesh& mesh) {
  assert(!units.empty() && units.front().parent == -1);
  std::set<std::string> names;
  for (const ParamDescription& param : params) {
    for (const std::string& name : param.names) {
      check_fqn(name);
      if (!names.insert(name).second)
        reject("two parameters have the same name", printable(name),
               "register them under different names");
    }
  }
  check_wrap_types(units, options.auto_wrap);

  UnitPlan plan;
  plan.mesh = mesh;
  add_rules(plan, params, options);
  const std::vector<int64_t> numels = subtree_numels(units, params);
  for (size_t i = 0; i < units.size(); ++i) {
    if (i > 0 && !is_selected(units[i], numels[i], options.auto_wrap)) {
      plan.unit_of.push_back(plan.unit_of[units[i].parent]);
      continue;
    }
    plan.unit_of.push_back(static_cast<int>(plan.units.size()));
    PlannedUnit& unit = plan.units.emplace_back();
    unit.fqn = units[i].fqn;
    unit.description = static_cast<int>(i);
  }

  for (PlannedUnit& unit : plan.units)
    unit.depth = planned_depth(plan, units, unit.description);

  add_unit_options(plan, units, options);
  add_parts(plan, units, params, options);
  return plan;
}

static_assert(kAlignNumel % Int8Block::kNumel == 0);  // no block has two owners

int64_t full_bytes(const PlannedPart& part) {
  return part.layout.numel * size_of(part.dtype);
}

}  // namespace zero
