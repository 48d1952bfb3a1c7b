// Words behind `zero_launch train`, one a line; those that begin with ZERO_ are variables
// of the environment.
#include <algorithm>
#include <sstream>

#include "tests/fuzz/settings_claims.h"
#include "tests/fuzz/target.h"

namespace zero::fuzz::command_line {

void target(const std::string& text) {
  std::vector<std::string> words, environment;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    (line.starts_with("ZERO_") ? environment : words).push_back(line);
  auto command_line = launcher::read_command_line(words);
  command_line.config_file.clear();  // whatever lies there is not part of the input
  claim_settings(command_line, environment);
}

}  // namespace zero::fuzz::command_line
