#include "launcher/look/inspect.h"

#include "launcher/commands/verbs.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// What a checkpoint, or a folder of Hugging Face, holds: a table, or with --json an
// object.
int inspect(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const CommandLine& line = call.line;
  require_no_settings(line, "inspect");
  const Inspection found =
      inspect_folder(line.from, {line.fqns, line.state}, line.norms, call.models);
  print_text(line.json ? to_line(found) : to_page(found), "the result");
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb inspect_verb() {
  return {.name = "inspect",
          .summary = "what a checkpoint or a folder of Hugging Face holds (inspect DIR)",
          .run = inspect,
          .head = "zero_launch inspect DIR [--fqn GLOB...] [--norms] [--state] [--json]",
          .lines = {{"DIR",
                     "a step's folder, or a run's or seed's: its newest checkpoint; or a "
                     "folder of Hugging Face"},
                    kFqnLine,
                    {"--norms",
                     "L2 norm, smallest, largest and mean value, in fp64, of what is "
                     "finite; how many are not. Reads every byte of these tensors; "
                     "without it none"},
                    kStateLine,
                    kJsonLine},
          .folder = kStepOrModelFolder};
}

}  // namespace zero::launcher
