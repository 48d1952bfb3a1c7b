#include "engine/comm/hang_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/processes.h"
#include "base/text.h"
#include "engine/comm/mpi_transport.h"
#include "engine/watch/activity.h"
#include "zero/errors.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;  // stands still while the machine sleeps
using Seconds = std::chrono::duration<double>;

constexpr Seconds kTick{0.5};
// A process that was stopped has not waited: each look counts for two ticks at most.
constexpr double kLongestLook = 1;
constexpr Seconds kLastWords{1};  // for all ranks to print theirs

enum class Kind : int64_t { kQuestion, kAnswer, kLeave };

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
  Watcher(const HangLimits& limits, HangReaction reaction)
      : reaction_(std::move(reaction)),
        comm_(duplicate_of(MPI_COMM_WORLD)),
        rank_(place_in(comm_).rank),
        size_(place_in(comm_).size),
        processes_(size_),
        judge_(rank_, size_, limits),
        is_asked_(size_) {
    Process own;
    own.pid = getpid();
    host_name().copy(own.host, sizeof own.host - 1);
    check_mpi(MPI_Allgather(&own, sizeof own, MPI_BYTE, processes_.data(), sizeof own,
                            MPI_BYTE, comm_),
              "MPI_Allgather");
    thread_ = std::jthread([this](std::stop_token stop) { watch(stop); });
  }

  // Questions to a rank that left first may never arrive: MPI_Finalize drops them, and
  // they must live until then.
  ~Watcher() {
    thread_.request_stop();
    wake_.notify_all();
    thread_.join();
    if (!sent_.empty()) new std::list<Sent>(std::move(sent_));
  }

 private:
  // Where a rank runs.
  struct Process {
    int64_t pid = 0;
    char host[64] = {};
  };

  struct Message {
    Kind kind = Kind::kQuestion;
    uint64_t signs = 0;
    int64_t is_waiting = 0;
    char where[232] = {};
  };

  struct Sent {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static std::string here() { return Activity::here().state().where; }

  void watch(std::stop_token stop) {
    Clock::time_point last = Clock::now();
    std::unique_lock guard(mutex_);
    while (!stop.stop_requested()) {
      wake_.wait_for(guard, stop, kTick, [] { return false; });
      const Clock::time_point now = Clock::now();
      try {
        look(std::min(Seconds(now - last).count(), kLongestLook));
      } catch (const Error&) {
        return;  // MPI is of no more use: another thread finds out as well, and tells
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
      send(peer, {});
    }
  }

  void listen() {
    while (true) {
      int is_there = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, 0, comm_, &is_there, &status), "MPI_Iprobe");
      if (!is_there) break;
      Message message;
      check_mpi(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, 0, comm_,
                         MPI_STATUS_IGNORE),
                "MPI_Recv");
      if (message.kind == Kind::kLeave) leave();
      if (message.kind == Kind::kQuestion) {
        answer(status.MPI_SOURCE);
      } else {
        is_asked_[status.MPI_SOURCE] = false;
        judge_.hear(status.MPI_SOURCE,
                    {message.signs, message.is_waiting != 0, message.where});
      }
    }
    std::erase_if(sent_, [](Sent& sent) {
      int is_done = 0;
      check_mpi(MPI_Test(&sent.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
      return is_done != 0;
    });
  }

  void answer(int peer) {
    const Activity::State state = Activity::here().state();
    Message message;
    message.kind = Kind::kAnswer;
    message.signs = state.signs;
    message.is_waiting = state.call != 0;
    state.where.copy(message.where, sizeof message.where - 1);
    send(peer, message);
  }

  void send(int peer, const Message& message) {
    Sent& sent = sent_.emplace_back();
    sent.message = message;
    check_mpi(
        MPI_Isend(&sent.message, sizeof message, MPI_BYTE, peer, 0, comm_, &sent.request),
        "MPI_Isend");
  }

  void name_missing() {
    for (const int peer : judge_.to_name()) {
      reaction_.tell(
          text_of(description_of(peer), "; rank ", rank_, " waits in ", here()));
    }
  }

  // "rank 3 (host a, pid 12": what else is known of it may follow.
  std::string name_of(int peer) const {
    const Process& process = processes_[peer];
    return text_of("rank ", peer, " (host ", process.host, ", pid ", process.pid);
  }

  std::string description_of(int peer) const {
    const Process& process = processes_[peer];
    const bool is_here = std::strcmp(process.host, processes_[rank_].host) == 0;
    const std::string state = is_here ? describe_process(process.pid) : "";
    const std::string doing =
        peer == rank_        ? "gives no sign of work, in " + here()
        : judge_.hears(peer) ? "gives no sign of work, in " + judge_.word_of(peer).where
                             : "does not answer";
    return name_of(peer) + (state.empty() ? "" : ", " + state) + ") " + doing;
  }

  void leave_all() {
    Message message;
    message.kind = Kind::kLeave;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) send(peer, message);
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
  MPI_Comm comm_;
  const int rank_, size_;
  std::vector<Process> processes_;
  HangJudge judge_;
  std::vector<bool> is_asked_;  // and has not answered yet
  std::list<Sent> sent_;        // still under way
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: ends before what it uses
};

HangWatch::HangWatch(const HangLimits& limits, HangReaction reaction)
    : watcher_(std::make_unique<Watcher>(limits, std::move(reaction))) {}
HangWatch::~HangWatch() = default;

}  // namespace zero
