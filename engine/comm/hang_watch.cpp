#include "engine/comm/hang_watch.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/processes.h"
#include "base/text.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;  // stands still while the machine sleeps
using Seconds = std::chrono::duration<double>;

constexpr Seconds kTick{0.5};
constexpr Seconds kLastWords{1};  // for all ranks to print theirs

// "stopped" for a process of this host, as /proc tells; empty: it does not.
std::string describe_process(int64_t pid) {
  const ProcessState state = state_of_process(pid);
  if (state.start_time == 0) return "gone";
  static const std::map<char, std::string> kNames = {
      {'T', "stopped"}, {'t', "held by a debugger"}, {'D', "waiting for a disk"},
      {'R', "running"}, {'S', "sleeping"},           {'Z', "dead"}};
  const auto name = kNames.find(state.letter);
  return name == kNames.end() ? "" : name->second;
}

}  // namespace

class HangWatch::Watcher {
 public:
  Watcher(Ranks& ranks, std::unique_ptr<HangPost> post, const HangLimits& limits,
          HangReaction reaction)
      : reaction_(std::move(reaction)),
        post_(std::move(post)),
        rank_(ranks.rank()),
        size_(ranks.size()),
        own_host_(host_name()),
        judge_(rank_, size_, limits),
        is_asked_(size_) {
    hosts_ = ranks.gather(own_host_);
    for (const std::string& pid : ranks.gather(std::to_string(getpid())))
      pids_.push_back(std::stoll(pid));
    thread_ = std::jthread([this](std::stop_token stop) { watch(stop); });
  }

  ~Watcher() {
    thread_.request_stop();
    wake_.notify_all();
    thread_.join();
  }

 private:
  using Kind = HangMessage::Kind;

  static std::string here() { return Activity::here().state().where; }

  void watch(std::stop_token stop) {
    Clock::time_point last = Clock::now();
    std::unique_lock guard(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(guard, stop, kTick, [] { return false; });
      const Clock::time_point now = Clock::now();
      try {
        look(Seconds(now - last).count());
      } catch (const Error&) {
        return;  // no more use: another thread finds out as well, and tells
      }
      last = now;
    }
  }

  void look(double seconds) {
    judge_.pass(seconds, Activity::here().state().call);
    listen();
    if (!judge_.asks()) return;
    ask_all();
    name_missing();
    if (judge_.gives_up()) leave_all();
  }

  // One question at a time: a stopped rank does not fill its mailbox.
  void ask_all() {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_ || is_asked_[peer]) continue;
      is_asked_[peer] = true;
      post_->send(peer, {});
    }
  }

  void listen() {
    while (const auto letter = post_->receive()) {
      const auto& [sender, message] = *letter;
      if (message.kind == Kind::kLeave) leave();
      if (message.kind == Kind::kQuestion) {
        answer(sender);
      } else {
        is_asked_[sender] = false;
        judge_.hear(sender, {message.signs, message.is_waiting != 0, message.where});
      }
    }
  }

  void answer(int peer) {
    const Activity::State state = Activity::here().state();
    HangMessage message{Kind::kAnswer, state.signs, state.call != 0, {}};
    state.where.copy(message.where, sizeof message.where - 1);
    post_->send(peer, message);
  }

  void name_missing() {
    for (const int peer : judge_.to_name()) {
      reaction_.tell(
          text_of(description_of(peer), "; rank ", rank_, " waits in ", here()));
    }
  }

  // "rank 3 (host a, pid 12": what else is known of it may follow.
  std::string name_of(int peer) const {
    return text_of("rank ", peer, " (host ", hosts_[peer], ", pid ", pids_[peer]);
  }

  std::string description_of(int peer) const {
    const bool is_here = hosts_[peer] == own_host_;
    const std::string state = is_here ? describe_process(pids_[peer]) : "";
    const std::string doing =
        peer == rank_        ? "gives no sign of work, in " + here()
        : judge_.hears(peer) ? "gives no sign of work, in " + judge_.word_of(peer).where
                             : "does not answer";
    return name_of(peer) + (state.empty() ? "" : ", " + state) + ") " + doing;
  }

  void leave_all() {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) post_->send(peer, {Kind::kLeave, 0, 0, {}});
    }
    leave();
  }

  [[noreturn]] void leave() {
    reaction_.tell(name_of(rank_) + ") gives up, in " + here());
    std::this_thread::sleep_for(kLastWords);
    reaction_.leave();
    std::abort();
  }

  const HangReaction reaction_;
  const std::unique_ptr<HangPost> post_;
  const int rank_, size_;
  const std::string own_host_;
  std::vector<std::string> hosts_;  // by rank
  std::vector<int64_t> pids_;
  HangJudge judge_;
  std::vector<bool> is_asked_;  // and has not answered yet
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: ends before what it uses
};

HangWatch::HangWatch(Ranks& ranks, std::unique_ptr<HangPost> post,
                     const HangLimits& limits, HangReaction reaction)
    : watcher_(std::make_unique<Watcher>(ranks, std::move(post), limits,
                                         std::move(reaction))) {}
HangWatch::~HangWatch() = default;

}  // namespace zero
