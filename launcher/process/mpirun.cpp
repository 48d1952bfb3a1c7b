#include "launcher/process/mpirun.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/files.h"
#include "base/processes.h"
#include "launcher/doctor/hosts.h"
#include "launcher/process/handler_scope.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "launcher/settings/config.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kGlance = 20ms;
// mpirun passes a signal on to the ranks that it has started: one that came too early is
// lost, and the file STOP says it again.
constexpr auto kPatience = 3s;

// Schedulers send SIGTERM to all processes of a job at once, and mpirun would give its
// ranks one second. They hear it themselves, and those of other hosts from the starter.
void shield_from_stop_signals() {
  change_signal_mask(SIG_BLOCK, {SIGTERM, SIGINT, SIGHUP});
}

// The ranks, and what they are told.
class MpirunJob {
 public:
  // `others`: children of this process that are none of the job's.
  MpirunJob(Child& mpirun, const RanksToStart& ranks, const std::vector<int64_t>& others)
      : mpirun_(mpirun), ranks_(ranks), others_(others) {}

  int wait() {
    while (!mpirun_.has_ended() && !is_stop_urgent()) {
      if (stop_signal() != 0) pass_on();
      std::this_thread::sleep_for(kGlance);
    }
    const bool has_ended = mpirun_.has_ended();
    if (!has_ended) mpirun_.kill_now();
    kill_descendants(others_);
    if (has_left_file_) unlink(ranks_.stop_file.c_str());
    return has_ended ? judge(mpirun_.code()) : static_cast<int>(ExitCode::kInterrupted);
  }

 private:
  void pass_on() {
    if (!was_told_) {
      was_told_ = true;
      told_at_ = std::chrono::steady_clock::now();
      tell_stop(ranks_);
      mpirun_.signal(SIGUSR1);
    } else if (!has_left_file_ &&
               std::chrono::steady_clock::now() - told_at_ > kPatience) {
      // A new one, which no link of that name leads elsewhere.
      const Descriptor file(::open(ranks_.stop_file.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                                   0666));
      has_left_file_ = file >= 0;
      told_at_ = std::chrono::steady_clock::now();
    }
  }

  // A rank that was not ready yet dies of the signal, and mpirun ends the others.
  int judge(int code) const {
    if (code == kCannotStart) {
      throw Error(ExitCode::kEnvironment, "mpirun cannot be started", "--ranks",
                  "install OpenMPI (openmpi-bin), or leave --ranks out");
    }
    if (code >= kSignalled + NSIG) {  // an error of mpirun's own, below zero
      throw Error(
          ExitCode::kEnvironment,
          fmt::format("mpirun could not go on (code {}): a host may be gone", code),
          "--ranks",
          "the same command again; train goes on from a checkpoint, if there is one");
    }
    const bool is_mpiruns = code == 1, has_died = code > kSignalled;
    const bool has_stopped = code == static_cast<int>(ExitCode::kInterrupted) ||
                             code == kSignalled + SIGUSR1 || code == kSignalled + SIGTERM;
    if (was_told_ && (is_mpiruns || has_stopped)) {
      warn(has_checkpoint(ranks_)
               ? "stopped; the same command goes on from the last checkpoint"
               : "stopped before a step was done: nothing was lost");
      return static_cast<int>(ExitCode::kInterrupted);
    }
    if (is_mpiruns) {  // no code of ours
      const std::string hosts = ranks_.hosts.empty() ? "" : " --hostfile " + ranks_.hosts;
      throw Error(ExitCode::kEnvironment,
                  fmt::format("mpirun could not run {} ranks", ranks_.count), "--ranks",
                  fmt::format("mpirun -n {}{} true tells why", ranks_.count, hosts));
    }
    if (has_died && code != static_cast<int>(ExitCode::kInterrupted)) {
      warn(
          fmt::format("a rank was ended by signal {} ({}); the same command goes on from "
                      "the last checkpoint, if there is one",
                      code - kSignalled, strsignal(code - kSignalled)));
    }
    return code;
  }

  Child& mpirun_;
  const RanksToStart& ranks_;
  const std::vector<int64_t>& others_;
  bool was_told_ = false, has_left_file_ = false;
  std::chrono::steady_clock::time_point told_at_;
};

}  // namespace

std::vector<std::string> mpirun_words(const RanksToStart& ranks,
                                      const std::string& program,
                                      const std::vector<std::string>& environment) {
  std::vector<std::string> words = {"mpirun", "--quiet", "-n",
                                    std::to_string(ranks.count)};
  if (ranks.hosts.empty()) {
    words.push_back("--oversubscribe");
  } else {
    words.insert(words.end(), {"--hostfile", ranks.hosts});
    for (const std::string& entry : environment) {
      if (entry.starts_with("ZERO_"))
        words.insert(words.end(), {"-x", entry.substr(0, entry.find('='))});
    }
  }
  words.push_back(program);
  words.insert(words.end(), ranks.words.begin(), ranks.words.end());
  return words;
}

std::vector<std::string> mpirun_variables(const std::vector<std::string>& environment,
                                          bool is_root) {
  std::vector<std::string> variables = {
      "OMPI_MCA_btl_vader_single_copy_mechanism=none",  // forbidden in containers
      // A host without power or cable says nothing: ask after half a minute, not hours.
      "OMPI_MCA_oob_tcp_keepalive_time=10",
      "OMPI_MCA_oob_tcp_keepalive_intvl=5",
      "OMPI_MCA_oob_tcp_keepalive_probes=3",
  };
  if (is_root) {
    variables.insert(variables.end(),
                     {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  }
  std::erase_if(variables, [&](const std::string& entry) {
    return variable(environment, entry.substr(0, entry.find('='))).has_value();
  });
  return variables;
}

bool may_oversubscribe(const std::vector<std::string>& environment) {
  return parse_boolean(variable(environment, kOversubscribeVariable).value_or(""))
      .value_or(false);
}

int start_by_mpirun(const RanksToStart& ranks,
                    const std::vector<std::string>& environment) {
  if (std::ranges::count(ranks.words, ":") > 0)
    throw Error(ExitCode::kUsage,
                "a lone ':' cannot be passed on: mpirun takes it for its own", "--ranks",
                "another value; or without --hosts");
  if (!ranks.hosts.empty()) require_hosts(ranks.hosts, environment);
  std::vector<std::string> variables = environment;
  const auto words = mpirun_words(ranks, path_of_this_program(), variables);
  const auto more = mpirun_variables(variables, geteuid() == 0);
  variables.insert(variables.end(), more.begin(), more.end());
  if (const size_t width = width_of_stdout(); width != kNoEnd)
    variables.push_back(fmt::format("{}={}", kColumnsVariable, width));
  const std::vector<int64_t> others = children_of(getpid());
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // whoever loses mpirun becomes a child of ours
  // It passes SIGUSR1 on: the ranks save and stop.
  Child mpirun(words, variables, SIGUSR1, shield_from_stop_signals);
  return MpirunJob(mpirun, ranks, others).wait();
}

}  // namespace zero::launcher
