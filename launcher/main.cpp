// To load the program, LibTorch above all, takes a third of a second: whoever stops it
// then is answered too. At the end LibTorch is left as it is. Links nothing of ours and
// nothing large.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/comm/started_ranks.h"
#include "launcher/process/handler_scope.h"
#include "launcher/process/say_in_handler.h"
#include "zero/errors.h"

namespace {

constexpr std::string_view kNothingLost = "zero: stopped: nothing was lost\n";

// Until a verb that has something to save catches signals itself.
void leave(int) { _exit(static_cast<int>(zero::ExitCode::kInterrupted)); }

void tell_and_leave(int signal) {
  zero::launcher::say_in_handler(kNothingLost);
  leave(signal);
}

// Ranks that have a starter leave it to say so.
bool is_first_rank() {
  if (std::getenv(zero::kStarterVariable)) return false;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}) {
    if (const char* rank = std::getenv(name)) return rank == std::string_view("0");
  }
  return true;
}

// But a terminal that closes stays ignored under nohup, as stop.h has it.
void answer_signals(void (*handler)(int)) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (number == SIGHUP && action.sa_handler == SIG_IGN) continue;
    action.sa_handler = handler;
    sigaction(number, &action, nullptr);
  }
  // One that came earlier was held by whoever started this process.
  zero::launcher::change_signal_mask(SIG_UNBLOCK, {SIGUSR1});
}

// Threads of OpenMP that wait for each other spin, by default for milliseconds, and take
// the core from the one that they wait for where another process has the other core.
// After a short spin they yield; scripts/bench/busy_machine.py compares the policies.
// OpenMP reads this when it is loaded.
void let_waiting_threads_yield() {
  if (!std::getenv("OMP_WAIT_POLICY") && !std::getenv("GOMP_SPINCOUNT"))
    setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
}

int refuse_to_start() {
  const char* const reason = dlerror();
  std::fprintf(stderr,
               "zero: the program cannot be loaded\n  where: %s\n"
               "  try:   scripts/build.sh, which installs what is missing\n",
               reason);
  return static_cast<int>(zero::ExitCode::kEnvironment);
}

// Profilers of GPUs, and sanitizers, write what they saw when a program exits.
bool is_watched_at_exit() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return dlopen("libzero_cuda.so", RTLD_NOLOAD | RTLD_LAZY) != nullptr;
#endif
}

// LibTorch takes its operators apart at exit, one by one, for a quarter of the time that
// a short command takes. All that was the program's is in its place by now.
int leave_at_once(int code) {
  if (is_watched_at_exit()) return code;
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  answer_signals(is_first_rank() ? tell_and_leave : leave);
  let_waiting_threads_yield();
  void* const library = dlopen("libzero_program.so", RTLD_NOW | RTLD_GLOBAL);
  void* const program = library ? dlsym(library, "zero_program") : nullptr;
  if (!program) return refuse_to_start();
  return leave_at_once(reinterpret_cast<int (*)(int, char**)>(program)(argc, argv));
}
