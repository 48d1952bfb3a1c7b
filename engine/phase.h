#pragma once
#include <cstdint>

namespace zero {

// What an engine is doing; its units look here.
struct Phase {
  bool is_in_forward = false;   // inside Engine::forward
  bool is_in_backward = false;  // inside Engine::backward
  // Counts the changes of weights: a graph belongs to the weights it was made with.
  int64_t weights_version = 0;
};

}  // namespace zero
