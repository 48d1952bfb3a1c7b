#pragma once
#include <cstdlib>

namespace zero {

// While it lives hwloc sees this machine, in hwloc's words for synthetic ones.
class PretendedMachine {
 public:
  explicit PretendedMachine(const char* description) {
    setenv("HWLOC_SYNTHETIC", description, 1);
  }
  ~PretendedMachine() { unsetenv("HWLOC_SYNTHETIC"); }
  PretendedMachine(const PretendedMachine&) = delete;
  PretendedMachine& operator=(const PretendedMachine&) = delete;
};

}  // namespace zero
