#include "launcher/inference/evaluate.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "engine/watch/activity.h"
#include "launcher/run/runner.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

}  // namespace

int64_t samples_to_evaluate(const data::Samples& samples, const Settings& settings) {
  const int64_t all = samples.num_samples();
  return settings.eval_samples == 0 ? all : std::min(all, settings.eval_samples);
}

std::optional<Evaluation> evaluate(Runner& runner, Ranks& ranks,
                                   const data::Samples& samples, const BatchPlan& plan,
                                   int64_t num_samples, const EvaluationHooks& hooks) {
  const int64_t num_micro_batches = divide_up(num_samples, plan.micro_batch);
  // Every rank runs as many passes as the others: their weights are gathered together.
  const int64_t num_passes = divide_up(num_micro_batches, plan.ranks);
  std::vector<double> losses(num_passes * plan.ranks);
  std::array<int64_t, 2> counts = {};  // targets, right ones
  bool tells_right = true;
  const Activity::Stretch stretch("evaluation");
  for (int64_t pass = 0; pass < num_passes; ++pass) {
    if (pass > 0 && hooks.is_stopped()) return std::nullopt;
    const int64_t index = pass * plan.ranks + plan.rank;
    const Batch batch = read_micro_batch(samples, plan.micro_batch, index, num_samples);
    const Scores scores = runner.scores(batch, static_cast<bool>(hooks.on_targets));
    if (hooks.on_targets)
      hooks.on_targets(batch, scores, index * plan.micro_batch,
                       samples_in(index, plan.micro_batch, num_samples));
    losses[index] = scores.loss_sum;
    counts[0] += batch.num_targets();
    counts[1] += scores.num_correct.value_or(0);
    tells_right = scores.num_correct.has_value();
  }
  // Each entry has one rank's loss and zeros: exact, so that the sum below does not
  // depend on the number of ranks.
  ranks.all_reduce(losses, ReduceOp::kSum, "evaluate");
  ranks.all_reduce(counts, ReduceOp::kSum, "evaluate");
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  const auto per_target = [&](auto total) {
    return counts[0] > 0 ? static_cast<double>(total) / static_cast<double>(counts[0])
                         : 0;
  };
  Evaluation result{per_target(sum), counts[0]};
  if (tells_right) result.accuracy = per_target(counts[1]);
  return result;
}

}  // namespace zero::launcher
