#include <algorithm>
#include <string>

#include "base/names.h"
#include "engine/plan/unit_plan.h"
#include "zero/errors.h"

namespace zero {
namespace {

constexpr char kWhere[] = "--unit (Options::unit_options)";

std::string name_of_unit(const std::string& fqn) { return fqn.empty() ? "(root)" : fqn; }

// What the patterns so far have said of one unit.
struct Said {
  UnitOption what;
  std::string by[3];  // of dtype, reshard, offload: the pattern

  template <class T>
  void add(std::optional<T> UnitOption::*member, int place, const UnitOption& more,
           const std::string& unit) {
    const std::optional<T>& value = more.*member;
    if (!value) return;
    if (what.*member && what.*member != value)
      reject("'" + by[place] + "' and '" + more.pattern + "' say different things of " +
                 unit,
             kWhere, "let one of them name it");
    what.*member = value;
    by[place] = more.pattern;
  }
};

void require_unit(const UnitOption& option, int num_matched,
                  const std::vector<UnitDescription>& units) {
  if (num_matched > 0) return;
  reject("'" + option.pattern + "' matches no unit", kWhere,
         units.size() > 1
             ? "* stands for any text; names look like " + units[1].fqn + " or (root)"
             : "the model has no units but its (root)");
}

void add_option(std::vector<Said>& said, const UnitOption& option, const UnitPlan& plan,
                const std::vector<UnitDescription>& units) {
  int num_matched = 0;
  for (size_t d = 0; d < units.size(); ++d) {
    const std::string name = name_of_unit(units[d].fqn);
    if (!glob_match(option.pattern, name)) continue;
    ++num_matched;
    const int unit = plan.unit_of[d];
    if (plan.units[unit].description != static_cast<int>(d))
      reject("'" + option.pattern + "' matches " + name + ", which is merged into " +
                 name_of_unit(plan.units[unit].fqn),
             kWhere, "name that, or merge fewer units (wrap_min_numel)");
    if (option.pattern == "(root)" && option.reshard)
      reject("the root is gathered once a step in any case", kWhere,
             "reshard for units alone");
    said[unit].add(&UnitOption::dtype, 0, option, name);
    said[unit].add(&UnitOption::reshard, 1, option, name);
    said[unit].add(&UnitOption::offload, 2, option, name);
  }
  require_unit(option, num_matched, units);
}

// What a unit returns has the type around it, also where several hold it: they may come
// behind it.
void add_holders_type(PlannedUnit& unit, const UnitPlan& plan,
                      const std::vector<UnitDescription>& units) {
  const UnitDescription& description = units[unit.description];
  const auto type_of = [&](int holder) { return plan.units[plan.unit_of[holder]].dtype; };
  for (const int holder : description.holders) {
    if (type_of(holder) != type_of(description.holders.front()))
      reject("units of different types hold it", description.fqn,
             "Options::unit_options with one type for all that hold it");
    unit.outer_dtype = type_of(holder);
  }
}

}  // namespace

void add_unit_options(UnitPlan& plan, const std::vector<UnitDescription>& units,
                      const Options& options) {
  std::vector<Said> said(plan.units.size());
  for (const UnitOption& option : options.unit_options)
    add_option(said, option, plan, units);
  for (size_t u = 0; u < plan.units.size(); ++u) {
    PlannedUnit& unit = plan.units[u];
    const UnitOption& what = said[u].what;
    unit.dtype = what.dtype.value_or(options.dtype);
    unit.reshards = what.reshard.value_or(options.reshard_after_forward);
    unit.offload = what.offload.value_or(options.offload);
    // Units come behind those that enclose them.
    const int parent = units[unit.description].parent;
    unit.outer_dtype = parent < 0 ? unit.dtype : plan.units[plan.unit_of[parent]].dtype;
  }
  for (PlannedUnit& unit : plan.units) add_holders_type(unit, plan, units);
}

}  // namespace zero
