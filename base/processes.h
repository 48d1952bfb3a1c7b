#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

// What /proc says of a process of this host (of this PID namespace).
struct ProcessState {
  char letter = '?';       // R runs, S sleeps, T is stopped, ... as in proc(5)
  int64_t parent = 0;      // its number
  int64_t start_time = 0;  // in clock ticks since boot; 0: /proc says nothing

  // A zombie only waits to be buried.
  bool is_dead() const { return letter == 'Z' || letter == 'X'; }
};

ProcessState state_of_process(int64_t pid);

// The processes whose parent is `pid`, dead ones that nobody has waited for among them.
std::vector<int64_t> children_of(int64_t pid);

std::string host_name();

// Seconds for which threads of this process, those that still run, were ready and had no
// core, so far; 0 where the kernel does not tell. `root` is where /proc is looked for.
double seconds_without_core(const std::string& root = "");

// Seconds that the calling thread has computed, the kernel's work for it included.
double cpu_seconds_of_thread();

}  // namespace zero
