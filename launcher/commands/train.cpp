#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

#include "checkpoint/find.h"
#include "checkpoint/reader.h"
#include "launcher/commands/verbs.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/saved_run.h"
#include "launcher/run/training.h"
#include "launcher/settings/config.h"
#include "launcher/settings/setting_table.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// What could not be checked before MPI, where only MPI knows how many ranks there are.
void check_ranks(const Settings& settings, int num_ranks) {
  Problems problems;
  for (const Conflict& conflict : find_rank_conflicts(settings, num_ranks))
    problems.push_back({conflict.text, ""});
  if (!problems.empty()) throw to_error(problems, "train");
}

// The checkpoint of a run that is to go on with its own settings: --out names its folder,
// and no data are given.
std::optional<checkpoint::StepFolder> run_to_go_on(const VerbCall& call,
                                                   ConfigContext context) {
  context.checks_fit = false;
  try {
    const Settings given = read_settings(call.line, call.environment, context);
    const bool goes_on = given.resume == "auto" || given.resume == "must";
    if (given.out.empty() || !given.data.empty() || !goes_on) return std::nullopt;
    return checkpoint::newest_complete(given.out);
  } catch (const std::runtime_error&) {  // told when all is read
    return std::nullopt;
  }
}

int train(const VerbCall& call) {
  catch_stop_signals();
  ConfigContext context{.num_ranks = call.announced ? call.announced->size : 1,
                        .ranks_from = call.announced ? call.announced->source : "",
                        .may_start_ranks = !call.announced,
                        .is_complete = !call.line.print_config,
                        .models = &call.models};
  Settings of_run;
  std::string from;  // the checkpoint that tells what is not given; empty: none
  if (const auto step = run_to_go_on(call, context)) {
    of_run = settings_to_go_on(
        parse_saved_run(checkpoint::Reader(step->path).manifest().config, step->path)
            .settings);
    context.base = &of_run;
    from = step->path;
  }
  const Settings settings = read_settings(call.line, call.environment, context);
  if (call.line.print_config) {
    if (call.rank() == 0) std::fputs(to_toml(settings).c_str(), stdout);
    return static_cast<int>(ExitCode::kDone);
  }
  check_start(call.environment, call.announced, settings.ranks);
  if (!call.announced && (settings.ranks > 1 || !settings.hosts.empty()))
    return start_ranks({static_cast<int>(settings.ranks), settings.hosts, call.line.words,
                        stop_file(settings.out)});
  if (!from.empty() && call.rank() == 0)
    tell("settings that are not given are those of " + from +
         "; device, ranks, threads and memory are chosen anew");
  World world(call.announced);
  Training training(settings, call.models, world);
  return run_or_end(world, [&] {
    world.watch(settings.hang_timeout);
    check_ranks(settings, world.size());
    return training.run();
  });
}

}  // namespace

Verb train_verb() {
  return {.name = "train",
          .summary = "train a language model, its state sharded over all ranks",
          .run = train,
          .head = head_with_settings("train", "--data PATH... --out DIR"),
          .lines = {kConfigLine,
                    {"--print-config", "print all settings as such a file, and leave"}},
          .settings = kAllSettings};
}

}  // namespace zero::launcher
