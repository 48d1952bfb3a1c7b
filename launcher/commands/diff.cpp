#include "launcher/look/diff.h"

#include "launcher/commands/verbs.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr int kDifferent = 1;

// Two of them, tensor by tensor. kDone when all are equal, kDifferent when not.
int diff(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const CommandLine& line = call.line;
  require_no_settings(line, "diff");
  const FolderDiff found = diff_folders(line.folders[0], line.folders[1],
                                        {line.fqns, line.state}, call.models);
  print_text(line.json ? to_line(found) : to_page(found), "the result");
  return found.are_equal() ? static_cast<int>(ExitCode::kDone) : kDifferent;
}

}  // namespace

Verb diff_verb() {
  return {.name = "diff",
          .summary = "two of them, tensor by tensor (diff A B)",
          .run = diff,
          .head = "zero_launch diff A B [--fqn GLOB...] [--state] [--json]",
          .lines = {{"A, B",
                     "each a step's folder, or a run's or seed's: its newest checkpoint; "
                     "or a folder of Hugging Face"},
                    kFqnLine,
                    kStateLine,
                    kJsonLine},
          .notes =
              "\nExit code 0: all are equal, in type, shape and every bit; 1: they "
              "differ; 2 and more: an error.\n"
              "relative is the largest difference by A's largest magnitude, relative "
              "norm the L2 norm of the differences by A's.\n",
          .takes_two = true};
}

}  // namespace zero::launcher
