#include "launcher/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "base/files.h"
#include "base/processes.h"
#include "base/seconds.h"
#include "base/text.h"
#include "launcher/process/stop.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLook = 10ms;
constexpr double kFarewell = 3;  // seconds; mpirun gives its ranks one

// For the system's calls: they borrow the words, a null stands at their end.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: system calls alone.
[[noreturn]] void become(char* const* words, char* const* variables, pid_t parent,
                         int signal_of_our_death, const std::function<void()>& prepare,
                         Child::Input input) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, signal_of_our_death);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kInterrupted));
  forget_stop_signals();
  for (const int ignored : {SIGPIPE, SIGXFSZ}) ::signal(ignored, SIG_DFL);
  const int nothing =
      input == Child::Input::kEmpty ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  prepare();
  execvpe(words[0], words, variables);
  _exit(kCannotStart);
}

// The most at any time when this was called. Each page of shared memory counts for all
// that map it: of n mappings one is a share of 1/n. The system walks all pages for that,
// so it is asked when there are more of them, and else every ten seconds.
int64_t shared_bytes_of_others() {
  static std::mutex mutex;
  static int64_t mapped = 0, others = 0;  // KiB, guarded by mutex
  static Clock::time_point next_look;     // guarded by mutex
  const std::lock_guard lock(mutex);
  const int64_t now = read_field("/proc/self/status", "RssShmem:").value_or(0);
  if (now > std::exchange(mapped, now) || Clock::now() > next_look) {
    const auto share = read_field("/proc/self/smaps_rollup", "Pss_Shmem:");
    others = std::max(others, share ? now - *share : 0);
    next_look = Clock::now() + 10s;
  }
  return others * 1024;
}

}  // namespace

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
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024 - shared_bytes_of_others();
}

std::string path_of_this_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

void throw_by_errno(const std::string& problem) {
  throw Error(ExitCode::kEnvironment, problem + ": " + std::strerror(errno));
}

void allow_open_files(int64_t least, const std::string& instead) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_by_errno("cannot read a limit");
  const auto needed = static_cast<rlim_t>(least);
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed)
    throw Error(ExitCode::kEnvironment,
                text_of("a process may have ", limit.rlim_max,
                        " files open at a time, and ", least, " are needed"),
                "ulimit -n", text_of("ulimit -n ", least, ", or ", instead));
  limit.rlim_cur = needed;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw_by_errno("cannot raise ulimit -n");
}

Child::Child(std::vector<std::string> words, std::vector<std::string> variables,
             int signal_of_our_death, const std::function<void()>& prepare, Input input) {
  const auto word_pointers = pointers_to(words),
             variable_pointers = pointers_to(variables);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw_by_errno("cannot start a process");
  if (pid_ == 0)
    become(word_pointers.data(), variable_pointers.data(), parent, signal_of_our_death,
           prepare, input);
  setpgid(pid_, pid_);
}

Child::~Child() {
  if (!has_ended()) end();
}

bool Child::has_ended() {
  if (!has_ended_) has_ended_ = waitpid(pid_, &status_, WNOHANG) != 0;
  return has_ended_;
}

void Child::signal(int number) const {
  if (!has_ended_) kill(pid_, number);  // else the number may be another's
}

void Child::end() {
  kill(-pid_, SIGTERM);
  for (const auto begin = Clock::now(); seconds_since(begin) < kFarewell;) {
    if (has_ended()) return;
    std::this_thread::sleep_for(kLook);
  }
  kill_now();
}

void Child::kill_now() {
  if (has_ended_) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
  has_ended_ = true;
}

int Child::code() const {
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : kSignalled + WTERMSIG(status_);
}

void kill_descendants(const std::vector<int64_t>& others) {
  const auto ours = [&] {
    std::vector<int64_t> children = children_of(getpid());
    std::erase_if(children, [&](int64_t child) {
      return std::ranges::find(others, child) != others.end();
    });
    return children;
  };
  for (auto children = ours(); !children.empty(); children = ours()) {
    for (const int64_t child : children) kill(static_cast<pid_t>(child), SIGKILL);
    for (const int64_t child : children) waitpid(static_cast<pid_t>(child), nullptr, 0);
  }
}

std::string text_in(int file) {
  std::string text;
  char block[4096];
  for (ssize_t got; (got = pread(file, block, sizeof block, text.size())) > 0;)
    text.append(block, got);
  return text;
}

ChildOutcome run_child(const std::vector<std::string>& words,
                       const std::vector<std::string>& variables, double limit) {
  // Memory that the process writes to as to a file. What outlives it may hold it open,
  // and nobody waits for that.
  const Descriptor output(memfd_create("output", MFD_CLOEXEC));
  if (output < 0) throw_by_errno("cannot get memory for the output of a process");
  const auto begin = Clock::now();
  Child child(words, variables, SIGTERM, [&] {
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
  });
  ChildOutcome outcome;
  while (!child.has_ended()) {
    if (stop_signal() != 0) {
      child.end();
      throw Error(ExitCode::kInterrupted, "stopped", words[0]);
    }
    if (seconds_since(begin) > limit) {
      outcome.is_late = true;
      child.end();
    }
    std::this_thread::sleep_for(kLook);
  }
  outcome.code = child.code();
  outcome.text = text_in(output);
  outcome.seconds = seconds_since(begin);
  return outcome;
}

}  // namespace zero::launcher
