#include "launcher/process/stop.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "engine/comm/started_ranks.h"
#include "engine/watch/activity.h"
#include "launcher/process/handler_scope.h"
#include "launcher/process/process.h"
#include "launcher/process/say_in_handler.h"
#include "launcher/process/world.h"
#include "launcher/run/run_folder.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr std::array kSignals = {SIGUSR1, SIGTERM, SIGINT, SIGHUP};
constexpr int64_t kDuplicateMs = 500;

// Two, so that the handler never reads what is being written.
std::string both_notes[2];
std::atomic<const std::string*> current_note = nullptr;

std::atomic<int> first_signal = 0;
std::atomic<int64_t> first_ms = 0;
std::atomic<bool> is_starter = false, is_urgent = false;
std::atomic<pid_t> starter_of_ranks = 0;  // 0: none, or its death was heard
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// The signal by which the system tells a rank that its starter is dead, once: it may come
// behind the starter's own and is no second request. Ranks have a new parent before it.
bool is_death_of_starter(int signal) {
  const pid_t starter = starter_of_ranks.load();
  return signal == SIGUSR1 && starter != 0 && getppid() != starter &&
         starter_of_ranks.exchange(0) != 0;
}

// Nothing here but what a handler may do.
void note_signal(int signal) {
  const int error = errno;
  const int64_t now = now_ms();
  const bool is_death = is_death_of_starter(signal);
  if (first_signal.load() == 0) {
    first_ms = now;
    first_signal = signal;
    const std::string* note =
        signal == SIGTERM || signal == SIGINT ? current_note.load() : nullptr;
    if (note) say_in_handler(*note);
  } else if (now - first_ms.load() >= kDuplicateMs && !is_death) {
    is_urgent = true;
    if (!is_starter) _exit(static_cast<int>(ExitCode::kInterrupted));
  }
  errno = error;
}

void set_handlers(void (*handler)(int)) {
  const struct sigaction action = to_action(handler);
  for (const int signal : kSignals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    const bool is_nohup = signal == SIGHUP && before.sa_handler == SIG_IGN;
    if (!is_nohup) sigaction(signal, &action, nullptr);
  }
}

// Those that pass SIGUSR1 on to all ranks.
constexpr std::array kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun"};

bool is_launcher(const std::string& name) {
  return std::ranges::find(kLaunchers, name) != kLaunchers.end();
}

bool blocks_sigterm(int pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  std::string mask;
  while (file >> mask && mask != "SigBlk:") {
  }
  file >> mask;  // hexadecimal
  return std::strtoull(mask.c_str(), nullptr, 16) >> (SIGTERM - 1) & 1;
}

// Empty where no signal reaches all ranks, as on the far side of an ssh.
std::string signal_command(const Starter& starter,
                           const std::vector<std::string>& environment) {
  const auto world = announced_world(environment);
  if (world && world->source == kStarterVariable)
    return fmt::format("kill -USR1 {}", starter.parent);
  if (!world) return fmt::format("kill -USR1 {}", starter.pid);
  if (is_launcher(starter.parent_name))
    return fmt::format("kill -USR1 {}", starter.parent);
  const auto job = variable(environment, "SLURM_JOB_ID"),
             step = variable(environment, "SLURM_STEP_ID");
  if (!job || job->empty() || !step || step->empty()) return "";
  return fmt::format("scancel --signal=USR1 {}.{}", *job, *step);
}

}  // namespace

void catch_stop_signals() {
  first_signal = 0;
  starter_of_ranks = std::getenv(kStarterVariable) ? getppid() : 0;
  set_handlers(note_signal);
}

int stop_signal() { return first_signal; }

void let_starter_end() { is_starter = true; }

bool is_stop_urgent() { return is_urgent; }

void sign_unless_stopped(int64_t bytes) {
  Activity::sign_here(bytes);
  if (stop_signal() != 0)
    throw Error(ExitCode::kInterrupted,
                "stopped before the first step: nothing was lost");
}

void set_signal_note(const std::string& note) {
  std::string& next = current_note == &both_notes[0] ? both_notes[1] : both_notes[0];
  next = note + '\n';
  current_note = note.empty() ? nullptr : &next;
}

void forget_stop_signals() { set_handlers(SIG_DFL); }

Starter starter_of_this_process() {
  Starter starter{getpid(), getppid(), "", false};
  starter.parent_name = read_line(fmt::format("/proc/{}/comm", starter.parent));
  starter.parent_is_shielded = blocks_sigterm(starter.parent);
  return starter;
}

bool is_impatient(const Starter& starter) {
  return is_launcher(starter.parent_name) && !starter.parent_is_shielded;
}

std::string stop_command(const Starter& starter,
                         const std::vector<std::string>& environment,
                         const std::string& folder) {
  const std::string signal = signal_command(starter, environment);
  return (signal.empty() ? "" : signal + ", or ") + "touch " + stop_file(folder);
}

}  // namespace zero::launcher
