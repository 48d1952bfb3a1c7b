#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "checkpoint/find.h"
#include "checkpoint/reader.h"
#include "engine/comm/agreement.h"
#include "launcher/commands/verbs.h"
#include "launcher/process/start_ranks.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "launcher/run/resume.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/saved_run.h"
#include "launcher/run/training.h"
#include "launcher/settings/config.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/origins.h"
#include "launcher/settings/same_settings.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"
#include "zero/gpu.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

// What could not be checked before MPI, where only MPI knows how many ranks there are.
void check_ranks(const Settings& settings, int num_ranks) {
  Problems problems;
  for (const Conflict& conflict : find_rank_conflicts(settings, num_ranks))
    problems.push_back({conflict.text, ""});
  if (!problems.empty()) throw to_error(problems, "train");
}

// And not a folder.
bool is_keyword(const std::string& resume) {
  return resume == "auto" || resume == "must" || resume == "never";
}

// The checkpoint from which the run would go on; empty: it begins.
std::string checkpoint_of(const Settings& given) {
  if (!is_keyword(given.resume)) return find_checkpoint(given.resume, "--resume");
  if (given.out.empty() || given.resume == "never") return "";
  return newest_of_run(given.out);
}

// A run that goes on.
struct EarlierRun {
  std::string checkpoint;
  Settings settings;
  bool tells_all = false;  // no data are given: what else is not comes from it, too
};

// What is wrong with settings, or with a checkpoint beside data, is told later.
std::optional<EarlierRun> find_earlier_run(const VerbCall& call, ConfigContext context) {
  context.checks_fit = false;
  EarlierRun run;
  try {
    const Settings given = read_settings(call.line, call.environment, context);
    run.tells_all = given.data.empty();
    run.checkpoint = checkpoint_of(given);
    if (run.checkpoint.empty()) return std::nullopt;
    const std::string config = checkpoint::Reader(run.checkpoint).manifest().config;
    run.settings = settings_to_go_on(parse_saved_run(config, run.checkpoint).settings);
    return run;
  } catch (const std::runtime_error&) {
    if (run.tells_all) throw;
    return std::nullopt;
  }
}

// Where values are wrong, and it is not known what else the run has.
bool may_go_on(const RawValues& given) {
  const auto word = [&](const std::string& key) {
    const auto found = given.find(key);
    const bool is_one = found != given.end() && found->second.words.size() == 1;
    return is_one ? found->second.words[0] : "";
  };
  const std::string out = word("out"), resume = word("resume");
  if (given.contains("data") || resume == "never") return false;
  const bool names_folder = !resume.empty() && !is_keyword(resume);
  return names_folder || (!out.empty() && checkpoint::newest_complete(out).has_value());
}

// With what the run of a checkpoint tells. Values that are wrong are told alone then.
Settings settings_of(const VerbCall& call, const RawValues& given,
                     const std::optional<EarlierRun>& earlier, ConfigContext context) {
  if (earlier)
    (earlier->tells_all ? context.base : context.going_on) = &earlier->settings;
  else
    context.checks_fit = !may_go_on(given);
  return read_settings(call.line, call.environment, context);
}

// What nobody gave and a run chooses is left to it, but in one that goes on.
void print_config(const Settings& settings, const RawValues& given, bool goes_on) {
  print_text(
      to_toml(settings, goes_on ? std::set<std::string>() : left_to_run(settings, given)),
      "the result");
}

// Before data are read. Rank 0 alone looks, as a run may just be saving.
void require_checkpoint(const Settings& settings, const World& world) {
  if (settings.resume == "auto") return;
  const std::unique_ptr<Ranks> ranks = world.make_ranks();
  Agreement(*ranks, "looking for a checkpoint").run([&] {
    if (world.rank() == 0) plan_resume(settings.resume, settings.out);
  });
}

void require_same_command(const VerbCall& call, const Settings& settings,
                          const World& world) {
  Lines lines = lines_of_settings(settings);
  lines.add("dry_run", call.line.dry_run);
  require_same_settings(lines, *world.make_ranks());
}

int train(const VerbCall& call) {
  catch_stop_signals();
  const bool prints = call.line.print_config;
  ConfigContext context{.num_ranks = call.announced ? call.announced->size : 1,
                        .ranks_from = call.announced ? call.announced->source : "",
                        .may_start_ranks = !call.announced,
                        .is_complete = !prints,
                        .may_begin = true,
                        .models = &call.models};
  // A scheduler's other hosts may have some.
  const bool is_here = call.announced || !has_several_hosts({}, call.environment);
  if (!prints && is_here) context.has_gpu = [] { return num_gpus() > 0; };
  const std::optional<EarlierRun> earlier = find_earlier_run(call, context);
  const RawValues given = given_values(call.line, call.environment);
  const Settings settings = settings_of(call, given, earlier, context);
  if (prints) {
    if (call.rank() == 0) print_config(settings, given, earlier.has_value());
    return static_cast<int>(ExitCode::kDone);
  }
  check_start(call.environment, call.announced, settings.ranks);
  if (!call.announced && (settings.ranks > 1 || !settings.hosts.empty()))
    return start_ranks({static_cast<int>(settings.ranks), settings.hosts, call.line.words,
                        stop_file(settings.out)});
  if (earlier && earlier->tells_all && call.rank() == 0)
    tell(wrapped(origins_text(given, earlier->settings, earlier->checkpoint),
                 width_of_stdout(), 2));
  World world(call.announced);
  Training training(settings, call.models, world);
  return run_or_end(world, [&] {
    world.watch(settings.hang_timeout);
    require_same_command(call, settings, world);
    require_checkpoint(settings, world);
    check_ranks(settings, world.size());
    return call.line.dry_run ? training.look_at_data() : training.run();
  });
}

}  // namespace

Verb train_verb() {
  return {.name = "train",
          .summary = "train a model, its state sharded over all ranks",
          .run = train,
          .head = head_with_settings("train", "--data PATH... --out DIR"),
          .lines = {kConfigLine,
                    {"--print-config", "print all settings as such a file, and leave"},
                    {"--dry-run", "make tokens, show what will be trained, and leave"}},
          .settings = kAllSettings};
}

}  // namespace zero::launcher
