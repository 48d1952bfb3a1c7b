#include "launcher/commands/new_model.h"

#include <fmt/format.h>

#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/find.h"
#include "checkpoint/tidy.h"
#include "launcher/data/batches.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/derived.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// As the run that starts from it will have it.
SavedRun run_of(const ModelFamily& family, const Settings& settings, ModelShape& shape) {
  fit_to_data(shape, family, settings);
  SavedRun run;
  run.settings = settings;
  run.vocab = shape.vocab();
  run.is_text = is_text(family, run.vocab);
  run.model = shape.config;
  return run;
}

}  // namespace

NewModel new_model(const ModelFamilies& models, const Settings& settings) {
  NewModel made{*find_family(models, settings.model), {}, nullptr, {}, {}};
  made.shape = new_shape(made.family, settings);
  made.state.config = to_text(run_of(made.family, settings, made.shape));
  made.state.position = to_text(Progress());
  made.model = make_deferred(made.family, made.shape);
  made.options = engine_options(settings, one_pass(1, 1, 0), made.shape, made.family);
  made.options.shard_ranks = 0;  // of the ranks that will read it
  return made;
}

void require_no_steps(const std::string& folder, const std::string& flag) try {
  const auto steps = checkpoint::list_steps(folder);
  if (steps.empty()) return;
  throw Error(ExitCode::kUsage, fmt::format("{} checkpoint(s) are there", steps.size()),
              folder, "another " + flag);
} catch (const checkpoint::CheckpointError& error) {
  throw Error(ExitCode::kCheckpoint, error.problem(), folder, "another " + flag + " DIR");
}

std::unique_ptr<checkpoint::RunLock> take_folder(const std::string& folder,
                                                 const std::string& flag) {
  create_folder(folder, flag);
  auto lock =
      std::make_unique<checkpoint::RunLock>(folder, job_id(process_environment()));
  for (const std::string& name : checkpoint::tidy(*lock))
    tell("removed what a process that was killed had left: " + folder + "/" + name);
  require_no_steps(folder, flag);  // one may have got its name back
  return lock;
}

}  // namespace zero::launcher
