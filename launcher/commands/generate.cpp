#include "launcher/commands/generate.h"

#include "launcher/commands/from_checkpoint.h"
#include "launcher/inference/sample.h"
#include "launcher/run/console.h"

namespace zero::launcher {
namespace {

void continue_prompt(LoadedModel& model, const FoundCheckpoint& checkpoint,
                     const Settings& settings) {
  const std::string text =
      sample_text(model.runner(), settings, model.shape(), checkpoint.run.is_text);
  if (model.batch().rank == 0) print_line(text);
}

}  // namespace

int generate_text(const CommandLine& line, const ModelFamilies& models) {
  return run_from_checkpoint("generate", line, models, continue_prompt);
}

}  // namespace zero::launcher
