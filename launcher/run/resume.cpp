#include "launcher/run/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "checkpoint/error.h"
#include "checkpoint/reader.h"
#include "checkpoint/verify.h"
#include "engine/comm/agreement.h"
#include "engine/save/load_checkpoint.h"
#include "launcher/run/console.h"
#include "zero/engine.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::CheckpointError;
using nlohmann::json;

// Rank 0 looks at the folder, so that all ranks see the same.
ResumePlan agree_on_plan(Engine& engine, const Settings& settings) {
  ResumePlan plan;
  if (engine.rank() == 0) plan = plan_resume(settings.resume, settings.out);
  for (const std::string& reason : first_few(plan.passed_over))
    warn("passed over: " + reason);
  const json mine = {plan.folders, plan.passed_over, plan.may_pass_over};
  const json first = json::parse(engine.control().broadcast(mine.dump()));
  return {first[0], first[1], first[2]};
}

// No run was trained on no data.
void refuse_seed(const SavedRun& before, const std::string& folder) {
  if (before.data != DataIdentity{}) return;
  throw Error(ExitCode::kUsage,
              "it holds the first values that seed wrote, and no run that goes on",
              folder, "--init-from " + folder + ", with another --out");
}

// "in the checkpoint and not read: 2 (lm_head.bias, lm_head.weight)"
std::string line_of(const std::string& what, const std::vector<std::string>& fqns) {
  return fmt::format("{}: {} ({})", what, fqns.size(), fmt::join(first_few(fqns), ", "));
}

using ReadFrozen = std::function<void(const FrozenSource& source, bool moved)>;

// What cannot be read there is no fault of the checkpoint.
void read_base(const ReadFrozen& read_frozen, const FrozenSource& source,
               bool moved) try {
  read_frozen(source, moved);
} catch (const FileError& error) {
  throw Error(ExitCode::kCheckpoint,
              "the frozen weights, which are in no checkpoint: " + error.problem(),
              error.file(), "the folder as it was, or another --init-from");
}

// What keeps the checkpoint's tensors from being the model's, as lines. Optimizers may
// have others, and frozen ones may lie elsewhere.
std::vector<std::string> other_tensors(Engine& engine, const FrozenSource& frozen,
                                       LoadOptions options,
                                       const checkpoint::Reader& reader) {
  options.with_optimizer = false;
  for (std::string& fqn : frozen.fqns()) options.allow_missing.push_back(std::move(fqn));
  return misfits_of(engine, reader, options);
}

Resumed load(Engine& engine, const std::string& folder, const SavedRun& now,
             const ReadFrozen& read_frozen) {
  std::string config;  // of the run that saved; rank 0's
  Agreement(engine.control(), "resume from " + folder).run([&] {
    if (engine.rank() != 0) return;
    const checkpoint::Reader reader(folder);
    const SavedRun before = parse_saved_run(reader.manifest().config, folder);
    refuse_seed(before, folder);
    SavedRun asked = now;
    // Nothing is left to be trained at any rate.
    if (asked.settings.steps <= reader.manifest().step)
      asked.settings.steps = before.settings.steps;
    // Epochs count samples: how many steps they are follows from what was done.
    if (before.settings.epochs > 0 && asked.settings.epochs >= before.settings.epochs)
      asked.settings.steps = std::max(asked.settings.steps, before.settings.steps);
    // Which weights they must be, checksums tell.
    if (!before.frozen.path.empty() && !asked.settings.init_from.empty())
      asked.settings.init_from = before.settings.init_from;
    check_same_run(
        before, asked, folder,
        other_tensors(engine, before.frozen, allowances_of(now.settings), reader));
    config = reader.manifest().config;
  });
  const SavedRun before = parse_saved_run(engine.control().broadcast(config), folder);
  const std::string& optimizer = before.settings.optimizer;
  LoadOptions options = allowances_of(now.settings);
  options.fresh_optimizer = optimizer != now.settings.optimizer;
  const bool lacks_frozen = !before.frozen.path.empty();
  if (lacks_frozen || !now.settings.save_frozen)
    read_base(read_frozen, before.frozen,
              before.settings.init_from != now.settings.init_from);
  for (std::string& fqn : before.frozen.fqns())
    options.allow_missing.push_back(std::move(fqn));
  SavedState state = load_checkpoint(engine, folder, options);
  std::erase_if(state.missing,
                [&](const std::string& fqn) { return before.frozen.has(fqn); });
  if (now.settings.dtype == "fp16" &&
      std::ranges::count(now.settings.overrides, "loss_scale_init") > 0)
    engine.set_loss_scale({now.settings.loss_scale_init, 0});
  if (engine.rank() == 0) {
    for (const std::string& line : differences_of(state)) tell(line);
  }
  if (options.fresh_optimizer && engine.rank() == 0) {
    tell(fmt::format("optimizer was {}, is {}: its state starts afresh", optimizer,
                     now.settings.optimizer));
  }
  Resumed resumed{folder, parse_progress(state.position, folder), before.threads};
  if (!evaluates_as(before.settings, now.settings)) resumed.progress.best_step = -1;
  const std::string rate = changed_rate(before.settings, now.settings, state.step);
  if (engine.rank() == 0 && now.settings.steps > state.step && !rate.empty()) tell(rate);
  return resumed;
}

}  // namespace

LoadOptions allowances_of(const Settings& settings) {
  return {.allow_missing = settings.allow_missing, .allow_extra = settings.allow_extra};
}

std::vector<std::string> differences_of(const SavedState& state) {
  std::vector<std::string> lines;
  if (!state.missing.empty())
    lines.push_back(line_of("missing in the checkpoint, so new", state.missing));
  if (!state.extra.empty())
    lines.push_back(line_of("in the checkpoint and not read", state.extra));
  if (!state.thawed.empty())
    lines.push_back(
        line_of("trained again, with moments that start at zero", state.thawed));
  if (!state.frozen.empty())
    lines.push_back(line_of("frozen now, their moments are dropped", state.frozen));
  return lines;
}

Error removed_meanwhile(const std::string& folder) {
  return {ExitCode::kCheckpoint,
          "was removed while it was read, as a run removes older checkpoints", folder,
          "the same command again; a larger --keep of the run leaves more of them"};
}

void use_step(const std::string& folder, const std::function<void()>& use) try {
  use();
} catch (const FileError&) {
  std::error_code error;
  if (std::filesystem::exists(folder, error)) throw;
  throw removed_meanwhile(folder);
}

std::optional<Resumed> resume(Engine& engine, const SavedRun& now,
                              const ReadFrozen& read_frozen) {
  ResumePlan plan = agree_on_plan(engine, now.settings);
  if (plan.folders.empty()) return std::nullopt;
  for (const std::string& folder : plan.folders) {
    try {
      return load(engine, folder, now, read_frozen);
    } catch (const CheckpointError& error) {
      if (!plan.may_pass_over) throw;
      plan.passed_over.push_back(error.without_cure());
      Agreement(engine.control(), "look at " + folder).run([&] {
        refuse_unreadable(folder);
      });
      if (engine.rank() == 0) warn("passed over: " + plan.passed_over.back());
    }
  }
  refuse_all(plan.passed_over, now.settings.out);
}

}  // namespace zero::launcher
