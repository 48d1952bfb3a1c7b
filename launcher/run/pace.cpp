#include "launcher/run/pace.h"

#include <time.h>
#include <unistd.h>

#include "base/processes.h"

namespace zero::launcher {
namespace {

using Clock = std::chrono::steady_clock;
const Clock::time_point loaded_at = Clock::now();

double start_in_seconds() {
  const int64_t ticks = state_of_process(getpid()).start_time;
  return ticks == 0
             ? -1
             : static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds_since_boot() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double process_age() {
  const double since_loading = seconds_since(loaded_at);
  static const double start = start_in_seconds();
  return start < 0 ? since_loading
                   : std::max(since_loading, seconds_since_boot() - start);
}

}  // namespace zero::launcher
