#include "launcher/process/environment.h"

#include <sys/resource.h>
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

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace zero::launcher
