// Parameters that freeze or thaw while an engine lives.
#include <algorithm>

#include "engine/comm/agreement.h"
#include "engine/engine_impl.h"
#include "zero/errors.h"

namespace zero {
namespace {

constexpr char kWhere[] = "Engine::set_frozen";

}  // namespace

void EngineStep::set_frozen(const std::string& pattern, bool frozen) {
  units_.phase.require_idle("set_frozen()");
  require_same_lines(Lines().add(pattern, frozen), "set_frozen() is called differently",
                     "call it with the same words on every rank", *own_.control);
  if (!losses_.empty())
    reject("set_frozen() in the middle of a step", kWhere,
           "step() or discard_gradients() first");
  const std::vector<ParamDescription>& params = own_.model.params;
  std::vector<size_t> named;
  for (size_t i = 0; i < params.size(); ++i) {
    if (!names(pattern, params[i])) continue;
    if (own_.plan.rules[i].frozen && !frozen)
      reject("it was frozen when the engine was made, and has no optimizer's state",
             params[i].fqn, "name it in Options::thaws");
    named.push_back(i);
  }
  if (named.empty())
    reject("'" + pattern + "' matches no parameter", kWhere, looks_like(params));
  for (const size_t i : named) {
    if (own_.plan.rules[i].frozen) continue;
    own_.rests[i] = frozen;
    own_.model.tensors[i].set_requires_grad(!frozen);
  }
  own_.updates->finish();  // they read gradients, which become zeros
  own_.rest_parts();
  forward_.weights_changed(/*frozen_too=*/false);  // for graphs of before
}

void Engine::set_frozen(const std::string& pattern, bool frozen) {
  impl_->step.set_frozen(pattern, frozen);
}

bool Engine::is_frozen(const std::string& fqn) const {
  return impl_->own.is_frozen(impl_->values.find(fqn));
}

}  // namespace zero
