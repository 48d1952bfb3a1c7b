#include "launcher/run/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>

#include "launcher/run/console.h"
#include "launcher/run/lines.h"

namespace zero::launcher {
namespace {

constexpr double kFirstOnTerminal = 1, kElsewhere = 30;

void run(const std::stop_token& stop) {
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  ProgressPace pace(on_terminal);
  std::mutex mutex;
  std::condition_variable_any wake;
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, stop, std::chrono::milliseconds(200), [] {
    return false;
  }) && !stop.stop_requested()) {
    const std::chrono::duration<double> now = std::chrono::steady_clock::now() - begin;
    const auto line = pace.next(Activity::here().progress(), now.count());
    if (on_terminal)
      set_status(line.value_or(""));
    else if (line)
      warn(*line);
  }
  if (on_terminal) set_status("");
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
ProgressTeller::ProgressTeller() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::jthread(run);
  } catch (const std::system_error&) {
    // no thread is left for it: nobody is told
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace zero::launcher
