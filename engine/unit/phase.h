#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "zero/errors.h"

namespace zero {

// What an engine is doing; its units look here.
struct Phase {
  enum class Now { kIdle, kForward, kBackward };

  Now now = Now::kIdle;
  // Counts the changes of weights: a graph belongs to the weights it was made with.
  int64_t weights_version = 0;

  // Hooks and bodies run in the middle of a forward or a backward.
  void require_idle(const std::string& call) const {
    if (now == Now::kIdle) return;
    throw Error(ExitCode::kUsage, call + " inside forward() or backward()",
                "zero::Engine", "call it afterwards");
  }
};

// Another value in a place for the length of a scope.
template <class T>
class Scoped {
 public:
  Scoped(T& place, T value) : place_(place), before_(std::exchange(place, value)) {}
  ~Scoped() { place_ = before_; }
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;

 private:
  T& place_;
  const T before_;
};

}  // namespace zero
