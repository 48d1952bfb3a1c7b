#include "launcher/commands/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/comm/ranks.h"
#include "launcher/commands/from_checkpoint.h"
#include "launcher/data/sampler.h"
#include "launcher/data/token_source.h"
#include "launcher/inference/evaluate.h"
#include "launcher/run/console.h"

namespace zero::launcher {
namespace {

bool is_given(const CommandLine& line, const std::string& key) {
  return std::ranges::find(line.flags, key, &NamedValue::key) != line.flags.end();
}

// --data, else what the run itself was evaluated on, else what it was trained on.
const std::vector<std::string>& data_for(const CommandLine& line,
                                         const Settings& settings) {
  const bool has_own = !is_given(line, "data") && !settings.eval_data.empty();
  return has_own ? settings.eval_data : settings.data;
}

void evaluate_on(const std::vector<std::string>& paths, LoadedModel& model,
                 const FoundCheckpoint& checkpoint, const Settings& settings) {
  const bool is_first = model.batch().rank == 0;
  const data::TokenSource source(paths);
  if (is_first) source.check_ids(model.shape().vocab);
  const data::Sampler sampler(source, {model.shape().seq_len, false, 0});
  const int64_t all = sampler.num_samples();
  const int64_t num_samples =
      settings.eval_samples == 0 ? all : std::min(all, settings.eval_samples);
  const Evaluation result = *evaluate(model.runner(), model.control(), sampler,
                                      model.batch(), model.shape().seq_len, num_samples);
  if (!is_first) return;
  print_line(fmt::format(
      "eval step {} | loss {:.6f} | ppl {:.4f} | {} of {} samples | {}", model.step(),
      result.loss, std::exp(result.loss), num_samples, all, checkpoint.folder));
}

}  // namespace

int eval(const CommandLine& line, const ModelFamilies& models) {
  return run_from_checkpoint("eval", line, models,
                             [&](LoadedModel& model, const FoundCheckpoint& checkpoint,
                                 const Settings& settings) {
                               evaluate_on(data_for(line, settings), model, checkpoint,
                                           settings);
                             });
}

}  // namespace zero::launcher
