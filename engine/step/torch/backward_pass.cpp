#include "engine/step/torch/backward_pass.h"

namespace zero {

BackwardPass::BackwardPass(const UnitPlan& plan, GradientShards& gradients,
                           WeightStreamer& weights, UpdateQueue& updates)
    : plan_(plan),
      gradients_(gradients),
      weights_(weights),
      updates_(updates),
      waiting_(plan.units.size()) {}

void BackwardPass::begin(const std::vector<std::pair<int, CallId>>& calls) {
  for (auto& waiting : waiting_) waiting.clear();
  for (const auto& [unit, call] : calls) waiting_[unit].insert(call);
  next_ = static_cast<int>(waiting_.size()) - 1;
}

void BackwardPass::collect(int unit) {
  for (const int part : plan_.units[unit].parts)
    gradients_.collect(part, weights_.params_of(part));
}

void BackwardPass::drop_call(int unit, CallId call) { waiting_[unit].erase(call); }

void BackwardPass::backward_done(int unit, CallId call) {
  drop_call(unit, call);
  reduce_ready(/*all=*/false);
}

void BackwardPass::end() {
  collect(0);
  reduce_ready(/*all=*/true);
}

void BackwardPass::reduce_ready(bool all) {
  for (; next_ >= 0; --next_) {
    const bool is_ready = all || (next_ > 0 && waiting_[next_].empty());
    if (!is_ready) return;
    reduce(next_);
  }
}

void BackwardPass::reduce(int unit) {
  for (const int part : plan_.units[unit].parts) gradients_.reduce(part);
  // A root is used as long as another graph may need it.
  if (!updates_.may_draft(unit) || weights_.is_used_in_place(unit)) return;
  std::vector<const Event*> after = gradients_.arrival();
  after.push_back(&weights_.gathered(unit));
  updates_.draft(unit, after);
}

}  // namespace zero
