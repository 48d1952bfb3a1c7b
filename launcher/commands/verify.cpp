#include "launcher/look/verify.h"

#include <filesystem>

#include "launcher/commands/verbs.h"
#include "launcher/run/console.h"
#include "launcher/run/resume.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// Read every byte of a checkpoint, or of all of a run's, and compare it with the hash
// that was recorded; tell of each folder when it is done. kDone when all is sound, else
// kCheckpoint.
int verify(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const CommandLine& line = call.line;
  require_no_settings(line, "verify");
  std::vector<std::string> folders;
  std::vector<checkpoint::VerifyReport> reports;
  bool are_sound = true;
  for (const std::string& folder : folders_to_verify(line.from)) {
    const checkpoint::VerifyReport report = verify_folder(folder);
    std::error_code error;
    const auto status = std::filesystem::symlink_status(folder, error);
    if (!report.is_sound() && !std::filesystem::exists(status)) {
      warn(folder + " " + removed_meanwhile(folder).problem());
      continue;
    }
    folders.push_back(folder);
    reports.push_back(report);
    are_sound = are_sound && report.is_sound();
    if (!line.json) print_line(folder + ": " + to_text(report));
  }
  if (folders.empty()) throw removed_meanwhile(line.from);
  const FrozenTensors frozen = compare_frozen_tensors(folders);
  if (line.json)
    print_line(to_line(folders, reports, frozen));
  else if (const std::string text = to_text(frozen); !text.empty())
    print_line(text);
  return static_cast<int>(are_sound ? ExitCode::kDone : ExitCode::kCheckpoint);
}

}  // namespace

Verb verify_verb() {
  return {
      .name = "verify",
      .summary = "every byte of a checkpoint, or of all of a run's (verify DIR)",
      .run = verify,
      .head = "zero_launch verify DIR [--json]",
      .lines = {{"DIR", "a step's folder, or a run's: all its checkpoints"}, kJsonLine},
      .folder = kStepFolder};
}

}  // namespace zero::launcher
