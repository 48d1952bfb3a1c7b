#include "launcher/process/local_ranks.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "engine/comm/started_ranks.h"
#include "launcher/process/handler_scope.h"
#include "launcher/process/lent_terminal.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using namespace std::chrono_literals;
using Instant = std::chrono::steady_clock::time_point;

constexpr auto kBlink = 10ms;
// Ranks end together: who is done waits for the others before it leaves.
constexpr auto kToEnd = 60s;

// A signal that comes before the program has its handlers waits until then. A terminal
// that stops processes in the background when they write does not stop ranks.
void hold_stop_signal() {
  change_signal_mask(SIG_BLOCK, {SIGUSR1});
  ::signal(SIGTTOU, SIG_IGN);
}

std::vector<std::string> variables_of_ranks(std::vector<std::string> environment) {
  std::erase_if(environment, [](const std::string& entry) {
    return entry.starts_with(std::string(kStarterVariable) + "=");
  });
  // The ranks of one host need no network; NCCL opens a port even so.
  if (!variable(environment, "NCCL_SOCKET_IFNAME"))
    environment.emplace_back("NCCL_SOCKET_IFNAME=lo");
  return environment;
}

class LocalJob {
 public:
  LocalJob(const RanksToStart& asked, const std::vector<std::string>& environment)
      : asked_(asked), memory_(asked.count) {
    std::vector<std::string> words = asked.words;
    words.insert(words.begin(), path_of_this_program());
    std::vector<std::string> variables = variables_of_ranks(environment);
    variables.emplace_back();
    for (int rank = 0; rank < asked.count; ++rank) {
      variables.back() = memory_.variable_for(rank);
      ranks_.push_back(
          rank == 0 && asked.reads_input
              ? reader(words, variables)
              : std::make_unique<Child>(words, variables, SIGUSR1, hold_stop_signal));
    }
  }

  int wait() {
    while (!is_stop_urgent() && !has_failed() && !have_ended()) {
      if (stop_signal() != 0 && !was_told_) pass_on();
      std::this_thread::sleep_for(kBlink);
    }
    has_failed();  // between two looks
    const auto hung =
        std::ranges::find_if(ranks_, [](const auto& rank) { return !rank->has_ended(); });
    const bool has_hung = hung != ranks_.end();
    for (const auto& rank : ranks_) rank->signal(SIGKILL);  // then wait for one by one
    for (const auto& rank : ranks_) rank->kill_now();
    if (is_stop_urgent()) return static_cast<int>(ExitCode::kInterrupted);
    if (failed_) return judge(*failed_);
    if (!has_hung) return code_of(0);
    warn(fmt::format(
        "rank {} (pid {}) did not end within {} s of the first, and is killed",
        hung - ranks_.begin(), (*hung)->pid(), kToEnd / 1s));
    return static_cast<int>(ExitCode::kHang);
  }

 private:
  // Somebody types what it reads.
  std::unique_ptr<Child> reader(const std::vector<std::string>& words,
                                const std::vector<std::string>& variables) {
    terminal_.emplace();
    const auto prepare = [this] {
      hold_stop_signal();
      terminal_->take();
    };
    return std::make_unique<Child>(words, variables, SIGUSR1, prepare,
                                   Child::Input::kOurs);
  }

  int code_of(size_t rank) const { return ranks_[rank]->code(); }

  void pass_on() {
    was_told_ = true;
    tell_stop(asked_);
    for (const auto& rank : ranks_) rank->signal(SIGUSR1);
  }

  static bool is_good(int code) {
    return code == static_cast<int>(ExitCode::kDone) ||
           code == static_cast<int>(ExitCode::kRequeue);
  }

  // Notes the lowest rank that has ended as it should not.
  bool has_failed() {
    for (size_t rank = 0; rank < ranks_.size() && !failed_; ++rank) {
      if (ranks_[rank]->has_ended() && !is_good(code_of(rank))) failed_ = rank;
    }
    return failed_.has_value();
  }

  // All of them, or those that are left take too long.
  bool have_ended() {
    size_t num_ended = 0;
    for (const auto& rank : ranks_) num_ended += rank->has_ended();
    if (num_ended == 0) return false;
    if (first_end_ == Instant()) first_end_ = std::chrono::steady_clock::now();
    return num_ended == ranks_.size() ||
           std::chrono::steady_clock::now() - first_end_ > kToEnd;
  }

  int judge(size_t rank) const {
    const int code = code_of(rank);
    if (code == kCannotStart)
      throw Error(ExitCode::kEnvironment, "a rank cannot be started",
                  path_of_this_program(), "the program's file must stay where it is");
    // By the signal itself: before it was heard.
    const bool is_stopped = code == static_cast<int>(ExitCode::kInterrupted) ||
                            (was_told_ && code == kSignalled + SIGUSR1);
    if (is_stopped && stop_signal() != 0)
      warn("stopped: nothing was lost");
    else if (code > kSignalled && !(is_stopped && terminal_))  // whose keys stop a rank
      tell_signal(rank, code - kSignalled);
    return is_stopped ? static_cast<int>(ExitCode::kInterrupted) : code;
  }

  void tell_signal(size_t rank, int signal) const {
    std::string text = fmt::format("rank {} (pid {}) was ended by signal {} ({})", rank,
                                   ranks_[rank]->pid(), signal, strsignal(signal));
    if (signal == SIGKILL) text += ", as the kernel does when memory is short";
    if (has_checkpoint(asked_))
      text += "; the same command goes on from the last checkpoint";
    warn(text);
  }

  const RanksToStart& asked_;
  const StarterMemory memory_;
  std::optional<LentTerminal> terminal_;  // to a rank that reads; taken back behind it
  std::vector<std::unique_ptr<Child>> ranks_;
  bool was_told_ = false;
  std::optional<size_t> failed_;
  Instant first_end_;
};

}  // namespace

int start_here(const RanksToStart& ranks, const std::vector<std::string>& environment) {
  return LocalJob(ranks, environment).wait();
}

}  // namespace zero::launcher
