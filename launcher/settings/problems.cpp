#include "launcher/settings/problems.h"

#include <fmt/format.h>

#include <iterator>

namespace zero::launcher {

void append(Problems& all, Problems more) {
  all.insert(all.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

Error to_error(const Problems& problems, const std::string& verb) {
  const std::string cure =
      fmt::format("zero_launch {} --help lists every setting and what it allows", verb);
  if (problems.size() == 1) {
    return {ExitCode::kUsage, problems[0].text, problems[0].origin, cure};
  }
  std::string text = fmt::format("{} settings cannot be used", problems.size());
  for (const Problem& problem : problems) {
    text += "\n  - " + problem.text;
    if (!problem.origin.empty()) text += fmt::format(" ({})", problem.origin);
  }
  return {ExitCode::kUsage, text, "", cure};
}

}  // namespace zero::launcher
