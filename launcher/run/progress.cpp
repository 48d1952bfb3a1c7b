#include "launcher/run/progress.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>

#include "base/processes.h"
#include "base/seconds.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

constexpr double kFirstOnTerminal = 1, kElsewhere = 30;

void tell_until_stopped(const std::stop_token& stop) {
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  ProgressPace pace(on_terminal);
  std::mutex mutex;
  std::condition_variable_any wake;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, stop, std::chrono::milliseconds(200), [] {
    return false;
  }) && !stop.stop_requested()) {
    const auto line = pace.next(Activity::here().progress(), seconds_since(begin));
    if (on_terminal)
      set_status(line.value_or(""));
    else if (line)
      warn(*line);
  }
  if (on_terminal) set_status("");
}

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

std::string progress_line(const Activity::Progress& progress, double seconds) {
  const auto done = static_cast<double>(progress.done_bytes);
  const auto total = static_cast<double>(progress.total_bytes);
  std::string line = fmt::format(
      "{}: {:.0f} %, {} of {}", printable(progress.what), std::floor(100 * done / total),
      short_bytes(progress.done_bytes), short_bytes(progress.total_bytes));
  if (done > 0)
    line += fmt::format(", {} left", short_duration(seconds * (total - done) / done));
  return line;
}

std::optional<std::string> ProgressPace::next(
    const std::optional<Activity::Progress>& progress, double now) {
  const uint64_t stretch = progress ? progress->stretch : 0;
  if (stretch != stretch_) begin_ = last_ = now;
  stretch_ = stretch;
  if (!progress) return {};
  if (on_terminal_ ? now - begin_ < kFirstOnTerminal : now - last_ < kElsewhere)
    return {};
  last_ = now;
  return progress_line(*progress, now - begin_);
}

// Signals are for the thread that waits for them.
std::jthread tell_progress() {
  std::jthread thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread = std::jthread(tell_until_stopped);
  } catch (const std::system_error&) {  // nobody is told
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
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
