#include "launcher/commands/from_checkpoint.h"

#include <optional>

#include "engine/comm/ranks.h"
#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/world.h"
#include "launcher/run/report.h"
#include "launcher/settings/config.h"
#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

// What belonged to the machine or to a test of the training run stays behind.
Settings for_use(Settings settings) {
  const Settings defaults;
  settings.threads = defaults.threads;
  settings.adam_threads = defaults.adam_threads;
  settings.device = defaults.device;
  settings.ranks = defaults.ranks;
  settings.hosts = defaults.hosts;
  settings.bind = defaults.bind;
  settings.hang_timeout = defaults.hang_timeout;
  settings.host_memory = defaults.host_memory;
  settings.ignore_plan = defaults.ignore_plan;
  settings.dump_state.clear();
  settings.trace_comm.clear();
  settings.delay.clear();
  settings.chaos = 0;
  return settings;
}

Settings settings_for(const std::string& verb, const CommandLine& line,
                      const FoundCheckpoint& checkpoint, const ModelFamilies& models) {
  const Settings base = for_use(checkpoint.run.settings);
  ConfigContext context;
  context.verb = verb;
  context.base = &base;
  context.models = &models;
  return read_settings(line, process_environment(), context);
}

// --ranks and --hosts, which count before anything of the checkpoint is known.
RanksToStart asked_ranks(const CommandLine& line) {
  RanksToStart ranks{0, "", line.words, ""};
  for (const NamedValue& flag : line.flags) {
    if (flag.value.words.size() != 1) continue;  // told with all other problems
    if (flag.key == "ranks")
      ranks.count = static_cast<int>(parse_integer(flag.value.words[0]).value_or(0));
    if (flag.key == "hosts") ranks.hosts = flag.value.words[0];
  }
  return ranks;
}

int use_in(World& world, const std::string& verb, const CommandLine& line,
           const ModelFamilies& models, const UseModel& use) {
  std::unique_ptr<Ranks> ranks = world.make_ranks();
  const FoundCheckpoint checkpoint = find_saved_run(line.from, *ranks);
  const Settings settings = settings_for(verb, line, checkpoint, models);
  world.watch(settings.hang_timeout);
  set_up_process(settings, world);
  LoadedModel model(checkpoint, settings, models, world, std::move(ranks));
  try {
    use(model, checkpoint, settings);
    return static_cast<int>(ExitCode::kDone);
  } catch (...) {
    // With the model still there: to take it down could mean to wait for other ranks.
    return report_and_end(describe(std::current_exception()), world);
  }
}

}  // namespace

int run_from_checkpoint(const std::string& verb, const CommandLine& line,
                        const ModelFamilies& models, const UseModel& use) {
  const auto announced = announced_world(process_environment());
  const int rank = announced ? announced->rank : 0;
  std::optional<World> world;
  try {
    if (!line.problems.empty()) throw to_error(line.problems, verb);
    const RanksToStart ranks = asked_ranks(line);
    if (!announced && ranks.count > 1) return start_ranks(ranks);
    world.emplace(announced);
  } catch (...) {
    return report_alone(describe(std::current_exception()), rank);
  }
  try {
    return use_in(*world, verb, line, models, use);
  } catch (...) {
    return report_and_end(describe(std::current_exception()), *world);
  }
}

}  // namespace zero::launcher
