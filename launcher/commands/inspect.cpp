#include "launcher/look/inspect.h"

#include <cstdio>

#include "launcher/commands/verbs.h"
#include "zero/errors.h"

namespace zero::launcher {

int inspect(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  const CommandLine& line = call.line;
  require_no_settings(line, "inspect");
  const Inspection found =
      inspect_folder(line.from, {line.fqns, line.state}, line.norms, call.models);
  std::fputs((line.json ? to_line(found) : to_page(found)).c_str(), stdout);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace zero::launcher
