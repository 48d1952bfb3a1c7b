#pragma once

#include <cstdint>
#include <string>

namespace zero {

// What /proc says of a process of this host (of this PID namespace).
struct ProcessState {
  char letter = '?';       // R runs, S sleeps, T is stopped, ... as in proc(5)
  int64_t start_time = 0;  // in clock ticks since boot; 0: /proc says nothing

  // A zombie only waits to be buried.
  bool is_dead() const { return letter == 'Z' || letter == 'X'; }
};

ProcessState state_of_process(int64_t pid);

std::string host_name();

}  // namespace zero
