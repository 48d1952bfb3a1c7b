#pragma once
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/hang_judge.h"
#include "engine/comm/mpi_check.h"

namespace zero {

// What a HangWatch tells, and how it ends the process; both from its own thread.
struct HangReaction {
  std::function<void(const std::string&)> tell;  // a line
  std::function<void()> leave;                   // does not return
};

// Name the ranks that keep the others waiting, and end all when it takes too long.
//
// A thread of each rank answers the others' questions where it is (Activity), by messages
// of MPI of its own, so that ranks on other hosts are heard like those of this one. A
// rank that does not answer has died, was stopped, or cannot be reached.
class HangWatch {
 public:
  // Of all ranks of the world; collective. MPI must outlive it.
  HangWatch(const HangLimits& limits, HangReaction reaction);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

 private:
  struct Place {
    int64_t pid = 0;
    char host[64] = {};
  };
  struct Message;
  struct Sent;

  void watch(std::stop_token stop);
  void look(double seconds);
  void ask_all();
  void listen();
  void answer(int peer);
  void send(int peer, const Message& message);
  void name_missing();
  void leave_all();
  [[noreturn]] void leave();
  std::string description_of(int peer) const;

  const HangReaction reaction_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<Place> places_;
  HangJudge judge_;
  std::vector<bool> is_asked_;  // and has not answered yet
  std::list<Sent> sent_;        // still under way
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace zero
