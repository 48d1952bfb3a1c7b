#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/comm/hang_judge.h"
#include "engine/comm/hang_post.h"

namespace zero {

// What a HangWatch tells, and how it ends the process; both from its own thread.
struct HangReaction {
  std::function<void(const std::string&)> tell;  // a line
  std::function<void()> leave;                   // does not return
};

// Name the ranks that keep the others waiting, and end all when it takes too long.
//
// A thread of each rank answers the others' questions where it is (Activity), by a post
// of its own, so that a rank is heard whatever its other threads wait for. One that does
// not answer has died, was stopped, or cannot be reached.
class HangWatch {
 public:
  // Of all ranks of the world, which are needed here alone; collective.
  HangWatch(Ranks& ranks, std::unique_ptr<HangPost> post, const HangLimits& limits,
            HangReaction reaction);
  ~HangWatch();

 private:
  class Watcher;
  const std::unique_ptr<Watcher> watcher_;
};

}  // namespace zero
