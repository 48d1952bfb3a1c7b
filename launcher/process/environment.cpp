#include "launcher/process/environment.h"

#include <unistd.h>

namespace zero::launcher {

std::vector<std::string> process_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  return environment;
}

std::optional<std::string> variable(const std::vector<std::string>& environment,
                                    const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace zero::launcher
