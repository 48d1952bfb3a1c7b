#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "checkpoint/find.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/tidy.h"
#include "launcher/commands/verbs.h"
#include "launcher/data/batches.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/run/dump_state.h"
#include "launcher/run/lines.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/config.h"
#include "launcher/settings/derived.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero::launcher {
namespace {

void require_no_steps(const std::string& out) {
  const auto steps = checkpoint::list_steps(out);
  if (steps.empty()) return;
  throw Error(ExitCode::kUsage, fmt::format("{} checkpoint(s) are there", steps.size()),
              out, "another --out");
}

// Its lock, held while the seed is written; what a killed seed has left goes.
std::unique_ptr<checkpoint::RunLock> take_folder(const std::string& out) {
  checkpoint::make_run_folder(out);
  auto lock = std::make_unique<checkpoint::RunLock>(out, job_id(process_environment()));
  for (const std::string& name : checkpoint::tidy(*lock))
    tell("removed what a process that was killed had left: " + out + "/" + name);
  require_no_steps(out);  // one may have got its name back
  return lock;
}

// As the run that starts from it will have it: --vocab, else the preset's, else the
// data's, else that of text.
SavedRun run_of(const ModelFamily& family, const Settings& settings, ModelShape& shape) {
  fit_to_data(shape, family, settings);
  SavedRun run;
  run.settings = settings;
  run.vocab = shape.vocab();
  run.is_text = is_text(family, run.vocab);
  run.model = shape.config;
  return run;
}

// The first values of a new model as a checkpoint without moments, written by one process
// that never holds the model.
int seed(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const Settings settings = read_settings(call.line, call.environment,
                                          {.verb = "seed", .models = &call.models});
  require_no_steps(settings.out);
  const auto start = std::chrono::steady_clock::now();
  const ModelFamily& family = *find_family(call.models, settings.model);
  ModelShape shape = new_shape(family, settings);
  SavedState state;
  state.config = to_text(run_of(family, settings, shape));
  state.position = to_text(Progress());
  const auto lock = take_folder(settings.out);
  const std::unique_ptr<Model> model = make_deferred(family, shape);
  Options options = engine_options(settings, one_pass(1, 1, 0), shape, family);
  options.init_report = !settings.init_report.empty();
  options.shard_ranks = 0;  // of the ranks that will read it
  std::vector<InitEntry> report;
  const std::string path = save_seed(*model->module(), options, settings.out, state,
                                     /*replace=*/false, &report);
  if (options.init_report) write_init_report(settings.init_report, report);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_line(fmt::format("seed {} of {} in {:.2f} s: {}", settings.seed, family.name,
                         seconds.count(), path));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb seed_verb() {
  return {.name = "seed",
          .summary = "the first values of a model, for any number of ranks (--out DIR)",
          .run = seed,
          .head =
              "zero_launch seed --out DIR [--model NAME] [--preset NAME] [--seed N]..."
              "\n\nSettings are read as train reads them; these count here.",
          .lines = {kConfigLine},
          .settings =
              "model preset layers dim heads kv_heads ffn_dim vocab model_config parts "
              "dropout data bytes seq_len seed out init_report adam_threads",
          .has_groups = false};
}

}  // namespace zero::launcher
