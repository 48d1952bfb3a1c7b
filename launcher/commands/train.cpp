#include "launcher/commands/train.h"

#include <cstdio>
#include <optional>
#include <string>

#include "launcher/process/announced_world.h"
#include "launcher/process/environment.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/stop_signals.h"
#include "launcher/process/world.h"
#include "launcher/run/report.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/training.h"
#include "launcher/settings/config.h"
#include "launcher/settings/config_checks.h"
#include "launcher/settings/setting_table.h"

namespace zero::launcher {
namespace {

int print_once(const std::string& text, int rank) {
  if (rank == 0) std::fputs(text.c_str(), stdout);
  return static_cast<int>(ExitCode::kDone);
}

// What could not be checked before MPI, where only MPI knows how many ranks there are.
void check_ranks(const Settings& settings, int num_ranks) {
  Problems problems;
  for (Conflict& conflict : find_rank_conflicts(settings, num_ranks)) {
    problems.push_back({std::move(conflict.text), ""});
  }
  if (!problems.empty()) throw to_error(problems, "train");
}

RanksToStart ranks_of(const CommandLine& line, const Settings& settings) {
  return {static_cast<int>(settings.ranks), settings.hosts, line.words,
          stop_file(settings.out)};
}

int train_in(World& world, const Settings& settings, const ModelFamilies& models) {
  Training training(settings, models, world);
  try {
    world.watch(settings.hang_timeout);
    check_ranks(settings, world.size());
    return static_cast<int>(training.run());
  } catch (...) {
    // Here, where `training` still stands: to take it down could mean to wait for ranks
    // that wait for this one.
    return report_and_end(describe(std::current_exception()), world);
  }
}

}  // namespace

int train(const CommandLine& line, const ModelFamilies& models) {
  catch_stop_signals();
  const std::vector<std::string> environment = process_environment();
  const std::optional<AnnouncedWorld> announced = announced_world(environment);
  const int rank = announced ? announced->rank : 0;

  Settings settings;
  std::optional<World> world;
  try {
    ConfigContext context;
    context.num_ranks = announced ? announced->size : 1;
    context.may_start_ranks = !announced;
    context.is_complete = !line.print_config;
    context.models = &models;
    settings = read_settings(line, environment, context);
    if (line.print_config) return print_once(to_toml(settings), rank);
    check_start(environment, announced, settings.ranks);
    if (!announced && (settings.ranks > 1 || !settings.hosts.empty()))
      return start_ranks(ranks_of(line, settings));
    world.emplace(announced);
  } catch (...) {
    return report_alone(describe(std::current_exception()), rank);
  }
  return train_in(*world, settings, models);
}

}  // namespace zero::launcher
