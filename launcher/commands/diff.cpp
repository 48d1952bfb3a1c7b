#include "launcher/look/diff.h"

#include <cstdio>

#include "launcher/commands/verbs.h"
#include "zero/errors.h"

namespace zero::launcher {

int diff(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const CommandLine& line = call.line;
  require_no_settings(line, "diff");
  const FolderDiff found = diff_folders(line.folders[0], line.folders[1],
                                        {line.fqns, line.state}, call.models);
  std::fputs((line.json ? to_line(found) : to_page(found)).c_str(), stdout);
  return found.are_equal() ? static_cast<int>(ExitCode::kDone) : kDifferent;
}

}  // namespace zero::launcher
