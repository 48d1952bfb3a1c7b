#pragma once
#include <string>
#include <vector>

#include "engine/plan/flat_layout.h"
#include "zero/options.h"

namespace zero {

// What the planner sees of a model: its units as a tree and its parameters, before
// anything is changed.
struct UnitDescription {
  std::string fqn;   // "" for the root
  std::string type;  // class name of the module
  // Index of the nearest unit that encloses it, wherever it is held; -1 for the root,
  // which is entry 0.
  int parent = -1;
  // Of a unit that is held in several places: the units that enclose it there.
  std::vector<int> holders = {};
};

struct ParamDescription {
  std::string fqn;  // the first name in module order
  std::vector<int64_t> shape;
  std::vector<std::string> names;  // every name of a tied parameter, the first included
  std::vector<int> units;          // of each name: the innermost unit that holds it
  bool requires_grad = true;
  bool stays_fp32 = false;  // whatever its unit computes in
  bool is_adapter = false;  // starts as its constructor says, whatever rules there are
};

// Does the glob match any of its names?
bool names(const std::string& pattern, const ParamDescription& param);
// The cure for a glob that names none of them.
std::string looks_like(const std::vector<ParamDescription>& params);

// The values of ParamGroup and WeightDecayOn that hold for one parameter.
struct ParamRule {
  double lr_scale = 1;
  double weight_decay = 0;
  bool frozen = false;
  int thaw = 0;  // of Options::thaws, the first that names it, from 1; 0: none
};

// Parameters of one unit that are kept alike: gathered in one exchange with the unit's
// other parts, and reduced in one of their own unless they are frozen, which have neither
// gradient nor moments. Those that one glob of Options::thaws names are apart.
struct PlannedPart {
  int unit = 0;  // index of its PlannedUnit
  bool is_frozen = false;
  DType dtype = DType::kFp32;  // of the gathered weights
  // Are weights of another type all that ranks keep of it, without masters? kFp32: no. If
  // that is not `dtype`, it is what they gather, and what the unit has is made of that.
  DType kept = DType::kFp32;
  FlatLayout layout;
  std::vector<int> params;  // indices of ParamDescriptions, as in the layout
  std::string tag;          // what collectives call it

  DType gathered_type() const { return kept == DType::kFp32 ? dtype : kept; }
  bool is_decoded() const { return gathered_type() != dtype; }
};

struct PlannedUnit {
  std::string fqn;
  int description = 0;     // index of its UnitDescription
  int depth = 0;           // of nesting, at its deepest place; the root is 0
  std::vector<int> parts;  // indices of its PlannedParts, trainable ones first
  // As Options says of all units, and UnitOption of this one.
  DType dtype = DType::kFp32;
  DType outer_dtype = DType::kFp32;  // of the unit around it; the root's own
  bool reshards = true;
  Offload offload = Offload::kAll;
};

// Where a parameter lies.
struct ParamPlace {
  int part = 0;   // index of its PlannedPart
  int index = 0;  // in that part's layout
};

struct UnitPlan {
  // The root first, the others in module order; units without parameters too.
  std::vector<PlannedUnit> units;
  // Unit by unit; none is empty.
  std::vector<PlannedPart> parts;
  // Of each UnitDescription: the planned unit it was merged into.
  std::vector<int> unit_of;
  // Of each ParamDescription.
  std::vector<ParamRule> rules;
  std::vector<int> groups;  // of Options::groups; -1: none holds for it
  std::vector<ParamPlace> places;
  Mesh mesh;
};

// Bytes of the gathered weights, by all ranks together.
int64_t full_bytes(const PlannedPart& part);

// Throw Error(kUsage) unless a name can be a key of a checkpoint (base/names.h) and
// has no empty components.
void check_fqn(const std::string& fqn);

// Decide which unit owns each parameter, and lay the units out for these ranks.
//
// A parameter with names in several units belongs to their closest common ancestor.
// Holders that AutoWrap does not select are merged into their nearest selected ancestor.
// A group holds for a tied parameter under any of its names. Throws Error(kUsage) when a
// group's pattern matches nothing, when the names of a tied parameter fall into groups
// that differ, or when a name cannot be a checkpoint's key.
UnitPlan make_unit_plan(const std::vector<UnitDescription>& units,
                        const std::vector<ParamDescription>& params,
                        const Options& options, const Mesh& mesh);

// Tell the planned units what holds for each: see UnitOption, whose errors are thrown as
// Error(kUsage).
void add_unit_options(UnitPlan& plan, const std::vector<UnitDescription>& units,
                      const Options& options);

}  // namespace zero
