// What updates have done to masters.
#include "engine/engine_impl.h"

namespace zero {

std::vector<ParamMovement> Engine::movements() {
  EngineResources& own = impl_->own;
  std::vector<int64_t> flags;  // of each parameter: had_gradient, moved
  for (const Movement& seen : own.updates->movements()) {
    flags.push_back(seen.had_gradient);
    flags.push_back(seen.moved);
  }
  own.control->all_reduce(flags, ReduceOp::kMax, "movements");
  std::vector<ParamMovement> movements;
  for (size_t i = 0; i < own.model.params.size(); ++i) {
    if (!own.is_frozen(i))
      movements.push_back(
          {own.model.params[i].fqn, flags[2 * i] != 0, flags[2 * i + 1] != 0});
  }
  return movements;
}

}  // namespace zero
