#include "engine/engine_units.h"

#include <functional>

#include "engine/device/gpu.h"

namespace zero {
namespace {

// Of each unit of a plan. Leaves hold no other one: wherever a unit is held, what
// encloses it there is none, be it through holders that were merged.
std::vector<bool> leaves_of(const UnitPlan& plan,
                            const std::vector<UnitDescription>& units) {
  std::vector<bool> is_leaf(plan.units.size(), true);
  const auto is_planned = [&](size_t d) {
    return plan.units[plan.unit_of[d]].description == static_cast<int>(d);
  };
  const std::function<void(size_t)> mark_holders = [&](size_t d) {
    std::vector<int> holders = units[d].holders;
    if (holders.empty()) holders.push_back(units[d].parent);
    for (const int holder : holders)
      is_planned(holder) ? void(is_leaf[plan.unit_of[holder]] = false)
                         : mark_holders(holder);
  };
  for (size_t d = 1; d < units.size(); ++d) {
    if (is_planned(d)) mark_holders(d);
  }
  return is_leaf;
}

// Of each unit of a plan but the root. Graphs that a block wants to keep are kept where
// they are those of one micro-batch.
std::vector<UnitRole> roles_of(const UnitPlan& plan, const ScannedModel& model,
                               const Options& options) {
  const std::vector<bool> is_leaf = leaves_of(plan, model.units);
  std::vector<UnitRole> roles(plan.units.size());
  int64_t num_before = 0;
  for (size_t u = 1; u < roles.size(); ++u) {
    roles[u].is_leaf = is_leaf[u];
    const bool keeps_graph = model.hooks[plan.units[u].description]->keeps_graph() &&
                             options.accumulate != Accumulate::kUnit;
    if (is_leaf[u] && !keeps_graph)
      roles[u].recomputes = options.recompute.includes(num_before++);
  }
  return roles;
}

}  // namespace

EngineUnits::EngineUnits(EngineResources& of_engine)
    : own(of_engine),
      borders(own.model, own.plan),
      weights(
          own.workplace(), own.model.tensors, *own.comm_stream,
          [this](int unit) -> const Event& { return own.updates->ready(unit); },
          [this](int unit) { own.updates->wait_until_unread(unit); }),
      pass(own.plan, *own.gradients, weights, *own.updates) {
  if (own.options.offload_activations && !own.options.inference)
    activations = std::make_shared<ActivationStore>(*own.device, own.options);
  if (own.device_memory() > 0)
    limit_torch_memory(own.gpu.index,
                       own.device_memory() - own.device->allocated_bytes());
  try {
    attach();
  } catch (...) {
    detach();
    throw;
  }
}

// The model's units are nobody's then.
void EngineUnits::detach() {
  for (UnitHook* hook : own.model.hooks) {
    if (hook) hook->runner.reset();
  }
  for (const auto& unit : attached_) unit->detach();
}

EngineUnits::~EngineUnits() {
  detach();
  own.wait_for_streams();
  if (activations) activations->close();
  if (own.device_memory() > 0) unlimit_torch_memory(own.gpu.index);
}

void EngineUnits::attach() {
  ScannedModel& model = own.model;
  const UnitPlan& plan = own.plan;
  const c10::Device here = own.torch_device();
  for (at::Tensor& buffer : model.buffers) {
    if (buffer.device() != here) buffer.set_data(buffer.detach().to(here));
  }
  const std::vector<UnitRole> roles = roles_of(plan, model, own.options);
  for (size_t d = 1; d < model.units.size(); ++d) {
    const int unit = plan.unit_of[d];
    const std::string& fqn = model.units[d].fqn;
    if (plan.units[unit].description != static_cast<int>(d)) {
      model.hooks[d]->runner = std::make_shared<MergedUnit>(fqn, plan.units[unit].dtype);
      continue;
    }
    attached_.push_back(std::make_shared<AttachedUnit>(
        unit, plan.units[unit], model.modules[d], roles[unit], here, own.options, phase,
        borders, weights, pass, activations));
    model.hooks[d]->runner = attached_.back();
  }
  if (own.options.sync_batch_norm && own.control->size() > 1)
    synced_.emplace(*own.root, *own.control);
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    model.tensors[i].set_requires_grad(!own.is_frozen(i));
  }
}

}  // namespace zero
