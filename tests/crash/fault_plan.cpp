#include "tests/crash/fault_plan.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace zero::crash {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Of a process that --ranks or mpirun has started; empty: it is none.
std::string rank_of_process() {
  const std::string started = variable("ZERO_STARTER");
  return started.empty() ? variable("OMPI_COMM_WORLD_RANK")
                         : started.substr(0, started.find(' '));
}

struct Plan {
  std::string folder = variable("FAULT_FOLDER");
  bool is_meant = !folder.empty() && variable("FAULT_RANK") == rank_of_process();
  std::string kind = variable("FAULT_KIND");
  long at = std::atol(variable("FAULT_AT").c_str());
  bool has_exchange = std::getenv("FAULT_NO_EXCHANGE") == nullptr;
  int log = -1;

  // System calls, so that none of ours is counted.
  Plan() {
    const std::string path = variable("FAULT_LOG");
    if (!is_meant || path.empty()) return;
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    log = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.c_str(), kFlags, 0644));
  }
};

const Plan& plan() {
  static const Plan plan;
  return plan;
}

const char* word_of(Class what) {
  switch (what) {
    case Class::kLooks:
      return "looks";
    case Class::kChanges:
      return "changes";
    case Class::kGrows:
      return "grows";
    case Class::kSyncs:
      return "syncs";
  }
  return "";
}

bool is_thread_that_saves() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::string(name) == "saves";
}

// The same in each run, whatever other threads do meanwhile, but for reads of shards.
long next_number(Class what, const std::string& path) {
  static std::atomic<long> num_calls = 0, num_of_saves = 10000, num_of_reads = 20000;
  if (is_thread_that_saves()) return ++num_of_saves;
  const bool is_read = what == Class::kLooks && path.ends_with(".h5");
  return is_read ? ++num_of_reads : ++num_calls;
}

bool meets_fault(long number, Class what) {
  static std::atomic<bool> is_full = false;
  if (plan().at == 0) return false;
  if (plan().kind != "enospc") return number == plan().at;
  is_full = is_full || number == plan().at;
  return is_full && (what == Class::kGrows || what == Class::kSyncs);
}

void log_call(long number, const char* name, Class what, const std::string& path,
              bool is_hit) {
  if (plan().log < 0) return;
  const std::string below =
      path == plan().folder ? "." : path.substr(plan().folder.size() + 1);
  const std::string line = std::to_string(number) + '\t' + name + '\t' + word_of(what) +
                           '\t' + below + '\t' + (is_hit ? plan().kind : "-") + '\n';
  syscall(SYS_write, plan().log, line.data(), line.size());
}

}  // namespace

Fate count_call(const char* name, Class what, const std::string& path) {
  if (!plan().is_meant || !is_in_folder(path)) return Fate::kPass;
  const long number = next_number(what, path);
  const bool is_hit = meets_fault(number, what);
  log_call(number, name, what, path, is_hit);
  if (!is_hit) return Fate::kPass;
  if (plan().kind == "kill") die();
  if (plan().kind == "tear") return Fate::kTear;
  errno = plan().kind == "enospc" ? ENOSPC : EIO;
  return Fate::kFail;
}

bool is_in_folder(const std::string& path) {
  const std::string& folder = plan().folder;
  return !folder.empty() && path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

bool has_exchange() { return plan().has_exchange; }

void die() {
  for (;;) kill(getpid(), SIGKILL);
}

}  // namespace zero::crash
