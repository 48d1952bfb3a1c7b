#include "launcher/run/time_limit.h"

#include <time.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace zero::launcher {
namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point loaded_at = Clock::now();

// Field 22 of /proc/self/stat, in clock ticks since boot; the name before it may hold
// blanks and brackets.
double start_in_seconds() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == text.npos) return -1;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double ticks = fields ? std::stod(field) : -1;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds_since_boot() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

double process_age() {
  const double since_loading =
      std::chrono::duration<double>(Clock::now() - loaded_at).count();
  static const double start = start_in_seconds();
  return start < 0 ? since_loading
                   : std::max(since_loading, seconds_since_boot() - start);
}

}  // namespace zero::launcher
