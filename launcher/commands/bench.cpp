#include <cstdio>

#include "launcher/bench/benches.h"
#include "launcher/commands/verbs.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"

namespace zero::launcher {
namespace {

void print_rows(const std::vector<Row>& rows, const CommandLine& line) {
  const std::string text = line.json ? Row(rows).dump() + "\n" : to_table(rows);
  print_text(text, "the result");
}

// Time one thing beside its limit; print a table, or with --json an array of rows. Some
// kinds are about one process: of several ranks the first measures, the others leave.
int bench(const VerbCall& call) {
  const BenchKind& kind = find_bench_kind(call.line);
  const BenchOptions options =
      read_bench_options(kind, call.line, call.environment, call.models);
  if (!kind.takes("ranks")) {  // is about one process
    if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
    const auto measure = kind.name == "adam"    ? bench_adam
                         : kind.name == "layer" ? bench_layer
                                                : bench_transfer;
    print_rows(measure(options), call.line);
    return static_cast<int>(ExitCode::kDone);
  }
  const auto num_ranks = static_cast<int>(options.settings.ranks);
  check_start(call.environment, call.announced, num_ranks);
  // These leave a folder where they are ended at once.
  const bool has_folder = kind.name == "checkpoint" || kind.name == "saves";
  const bool starts = !call.announced && num_ranks > 1;
  if (has_folder || starts) catch_stop_signals();
  if (starts) return start_ranks({num_ranks, "", call.line.words, ""});
  if (has_folder && !call.announced)
    set_signal_note("zero: stopping; once more leaves at once");
  std::function<std::vector<Row>(const World&)> step;
  if (kind.name == "step") step = bench_step(options, call.models);
  World world(call.announced);
  return run_or_end(world, [&] {
    const std::vector<Row> rows =
        step                   ? step(world)
        : kind.name == "init"  ? bench_init(options, call.models, world)
        : kind.name == "saves" ? bench_saves(options, call.models, world)
        : kind.name == "comm"  ? bench_comm(options, world)
                               : bench_checkpoint(options, world);
    if (world.rank() == 0) print_rows(rows, call.line);
    return ExitCode::kDone;
  });
}

}  // namespace

Verb bench_verb() {
  return {.name = "bench",
          .summary = "what this machine does, each beside its limit (adam, step, ...)",
          .run = bench,
          .lines = {{"--json"}, {"--rounds"}, {"--size"}},
          .own_page = bench_help,
          .settings = kAllSettings};
}

}  // namespace zero::launcher
