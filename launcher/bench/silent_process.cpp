#include "launcher/bench/silent_process.h"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>

#include "launcher/bench/rounds.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/run/failure.h"
#include "offload/affinity.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// Messages arrive whole or not at all: the number of steps, then CPUs; or a StepsTaken.
constexpr size_t kMostNumbers = 1 << 13;

StepsTaken take_steps(const SilentProcess::Step& step, int num_steps) {
  step();
  StepsTaken taken;
  taken.seconds = seconds_of([&] {
    for (int i = 0; i < num_steps; ++i) step();
  });
  taken.peak_bytes = peak_resident_bytes();
  malloc_trim(0);  // while others have their turn
  return taken;
}

// Until nobody is there who could want steps.
void serve(int socket, const std::function<SilentProcess::Step()>& make) {
  SilentProcess::Step step;
  std::vector<int> order(kMostNumbers);
  while (true) {
    const ssize_t bytes = recv(socket, order.data(), order.size() * sizeof(int), 0);
    if (bytes <= 0) return;
    bind_process({order.begin() + 1, order.begin() + bytes / sizeof(int)});
    if (!step) step = make();
    const StepsTaken taken = take_steps(step, order[0]);
    if (send(socket, &taken, sizeof taken, MSG_NOSIGNAL) < 0) return;
  }
}

[[noreturn]] void live_in_silence(int socket,
                                  const std::function<SilentProcess::Step()>& make) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Who has started this process hears them, and ends it.
  for (const int number : {SIGUSR1, SIGINT, SIGTERM, SIGHUP})
    std::signal(number, SIG_IGN);
  try {
    serve(socket, make);
    _exit(0);
  } catch (...) {
    warn(printable(describe(std::current_exception()).problem()));
    _exit(1);
  }
}

}  // namespace

SilentProcess::SilentProcess(const std::function<Step()>& make) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    throw_by_errno("cannot make a socket");
  pid_ = fork();
  if (pid_ < 0) throw_by_errno("cannot start a process");
  if (pid_ == 0) {
    close(sockets[0]);
    live_in_silence(sockets[1], make);
  }
  close(sockets[1]);
  socket_ = sockets[0];
}

SilentProcess::~SilentProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(socket_);
}

StepsTaken SilentProcess::run(int64_t num_steps, const std::vector<int>& cpus) {
  std::vector<int> order = {static_cast<int>(num_steps)};
  order.insert(order.end(), cpus.begin(), cpus.end());
  StepsTaken taken;
  const bool is_done =
      send(socket_, order.data(), order.size() * sizeof(int), MSG_NOSIGNAL) > 0 &&
      recv(socket_, &taken, sizeof taken, 0) == sizeof taken;
  if (!is_done)
    throw Error(ExitCode::kEnvironment, "the silent process beside this one has ended",
                "", "fewer ranks or a smaller model, if memory was short");
  return taken;
}

}  // namespace zero::launcher
