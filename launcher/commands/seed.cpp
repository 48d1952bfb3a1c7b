#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "base/seconds.h"
#include "launcher/commands/new_model.h"
#include "launcher/commands/verbs.h"
#include "launcher/run/console.h"
#include "launcher/run/dump_state.h"
#include "launcher/settings/config.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// The first values of a new model as a checkpoint without moments, written by one process
// that never holds the model.
int seed(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const Settings settings = read_settings(call.line, call.environment,
                                          {.verb = "seed", .models = &call.models});
  require_no_steps(settings.out, "--out");
  const auto start = std::chrono::steady_clock::now();
  NewModel made = new_model(call.models, settings);
  made.options.init_report = !settings.init_report.empty();
  const auto lock = take_folder(settings.out, "--out");
  std::vector<InitEntry> report;
  const std::string path = save_seed(*made.model->module(), made.options, settings.out,
                                     made.state, /*replace=*/false, &report);
  if (made.options.init_report) write_init_report(settings.init_report, report);
  print_line(fmt::format("seed {} of {} in {:.2f} s: {}", settings.seed, made.family.name,
                         seconds_since(start), path));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb seed_verb() {
  return {
      .name = "seed",
      .summary = "the first values of a model, for any number of ranks (--out DIR)",
      .run = seed,
      .head =
          "zero_launch seed --out DIR [--model NAME] [--preset NAME] [--seed N]..."
          "\n\nSettings are read as train reads them; these count here.",
      .lines = {kConfigLine},
      .settings =
          "model preset layers dim heads kv_heads ffn_dim vocab model_config parts "
          "dropout data bytes tokenizer python seq_len seed out init_report adam_threads",
      .has_groups = false};
}

}  // namespace zero::launcher
