#include "launcher/inference/evaluate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "engine/watch/activity.h"
#include "launcher/run/runner.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

int64_t divide_up(int64_t count, int64_t by) { return (count + by - 1) / by; }

// Micro-batch `index`: what lies behind the last sample is filled with targets that count
// for nothing.
Batch read_micro_batch(const data::Sampler& sampler, int64_t rows, int64_t seq_len,
                       int64_t index, int64_t num_samples) {
  Batch batch = empty_batch(rows, seq_len);
  const int64_t first = index * rows;
  for (int64_t i = 0; i < rows && first + i < num_samples; ++i)
    read_row(sampler, first + i, i, batch);
  return batch;
}

}  // namespace

int64_t samples_to_evaluate(const data::Sampler& sampler, const Settings& settings) {
  const int64_t all = sampler.num_samples();
  return settings.eval_samples == 0 ? all : std::min(all, settings.eval_samples);
}

std::optional<Evaluation> evaluate(Runner& runner, Ranks& ranks,
                                   const data::Sampler& sampler, const BatchPlan& plan,
                                   int64_t seq_len, int64_t num_samples,
                                   const std::function<bool()>& is_stopped) {
  const int64_t num_micro_batches = divide_up(num_samples, plan.micro_batch);
  // Every rank runs as many passes as the others: their weights are gathered together.
  const int64_t num_passes = divide_up(num_micro_batches, plan.ranks);
  std::vector<double> losses(num_passes * plan.ranks);
  const Activity::Stretch stretch("evaluation");
  for (int64_t pass = 0; pass < num_passes; ++pass) {
    if (pass > 0 && is_stopped()) return std::nullopt;
    const int64_t index = pass * plan.ranks + plan.rank;
    losses[index] = runner.loss_sum(
        read_micro_batch(sampler, plan.micro_batch, seq_len, index, num_samples));
  }
  // Each entry has one rank's loss and zeros: exact, so that the sum below does not
  // depend on the number of ranks.
  ranks.all_reduce(losses, ReduceOp::kSum, "evaluate");
  const int64_t num_targets = num_samples * seq_len;
  const double sum = std::accumulate(losses.begin(), losses.end(), 0.0);
  return Evaluation{num_targets > 0 ? sum / static_cast<double>(num_targets) : 0,
                    num_targets};
}

}  // namespace zero::launcher
