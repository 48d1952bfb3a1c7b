#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/comm/hang_judge.h"

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

 private:
  class Watcher;
  const std::unique_ptr<Watcher> watcher_;
};

}  // namespace zero
