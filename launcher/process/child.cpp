#include "launcher/process/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "launcher/process/stop.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kLook = 10ms;
constexpr auto kFarewell = 3s;  // mpirun gives its ranks one

// Memory that a process writes to as to a file. What outlives it may hold it open, and
// nobody waits for that.
class Output {
 public:
  Output() : file_(memfd_create("output", MFD_CLOEXEC)) {
    if (file_ < 0) throw_by_errno("cannot get memory for the output of a process");
  }
  ~Output() { close(file_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  int descriptor() const { return file_; }
  std::string text() const {
    std::string text;
    char block[4096];
    for (ssize_t got; (got = pread(file_, block, sizeof block, text.size())) > 0;)
      text.append(block, got);
    return text;
  }

 private:
  const int file_;
};

// In the child, between fork and exec: system calls alone.
[[noreturn]] void become(char* const* words, char* const* variables, int output,
                         pid_t parent) {
  begin_child(parent, SIGTERM);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execvpe(words[0], words, variables);
  _exit(127);
}

class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (!has_ended()) end();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended() {
    if (!has_ended_) has_ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
    return has_ended_;
  }
  void end() {
    kill(-pid_, SIGTERM);
    for (const auto begin = Clock::now(); Clock::now() - begin < kFarewell;) {
      if (has_ended()) return;
      std::this_thread::sleep_for(kLook);
    }
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
    has_ended_ = true;
  }
  int code() const {
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  const pid_t pid_;
  int status_ = 0;
  bool has_ended_ = false;
};

}  // namespace

void throw_by_errno(const std::string& problem) {
  throw Error(ExitCode::kEnvironment, problem + ": " + std::strerror(errno));
}

void begin_child(pid_t parent, int signal_of_death) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, signal_of_death);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kInterrupted));
  forget_stop_signals();
  for (const int ignored : {SIGPIPE, SIGXFSZ}) signal(ignored, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
}

ChildOutcome run_child(ChildOrder order) {
  const Output output;
  const auto words = pointers_to(order.words), variables = pointers_to(order.variables);
  const auto begin = Clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) throw_by_errno("cannot start a process");
  if (pid == 0) become(words.data(), variables.data(), output.descriptor(), parent);
  setpgid(pid, pid);
  Child child(pid);
  ChildOutcome outcome;
  while (!child.has_ended()) {
    if (stop_signal() != 0) {
      child.end();
      throw Error(ExitCode::kInterrupted, "stopped", order.words[0]);
    }
    if (seconds() > order.seconds) {
      outcome.is_late = true;
      child.end();
    }
    std::this_thread::sleep_for(kLook);
  }
  outcome.code = child.code();
  outcome.text = output.text();
  outcome.seconds = seconds();
  return outcome;
}

std::string path_of_this_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace zero::launcher
