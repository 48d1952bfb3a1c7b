#pragma once
#include <torch/torch.h>

#include <string>
#include <vector>

#include "engine/plan/unit_plan.h"
#include "zero/unit.h"

namespace zero {

// A parameter that Options::ignored leaves whole.
struct IgnoredParam {
  std::vector<std::string> names;  // as in ParamDescription
  bool averaged = true;
  at::Tensor tensor;
};

// A module tree as the planner needs it, and what the plan's indices stand for.
struct ScannedModel {
  // The root first, then units in module order.
  std::vector<UnitDescription> units;
  std::vector<UnitHook*> hooks;  // of each unit; null for the root
  // Of each unit: its own, then those that travel with it.
  std::vector<std::vector<torch::nn::Module*>> modules;
  std::vector<ParamDescription> params;
  std::vector<at::Tensor> tensors;  // of each parameter
  std::vector<std::string> buffer_fqns;
  std::vector<at::Tensor> buffers;
  // Whole as buffers are, and the last of them.
  std::vector<IgnoredParam> ignored;

  torch::nn::Module& root() const { return *modules.front().front(); }
  // Null: a buffer of the module's.
  const IgnoredParam* ignored_of(size_t buffer) const {
    const size_t num_own = buffers.size() - ignored.size();
    return buffer < num_own ? nullptr : &ignored[buffer - num_own];
  }
};

// The class of a module without namespaces; of a zero::Unit's, the one it was asked to
// hold.
std::string class_name(const torch::nn::Module& module);

// Throws Error(kUsage) naming every parameter that is not a dense floating-point tensor
// with memory of its own, a buffer whose name cannot be a checkpoint's key, or is a
// parameter's, and a unit whose companions cannot travel with it; as leave_out(), too.
ScannedModel scan_model(torch::nn::Module& root,
                        const std::vector<Ignored>& ignored = {});

}  // namespace zero
