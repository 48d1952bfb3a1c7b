#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/no_copy.h"

namespace zero::launcher {

// What some steps took.
struct StepsTaken {
  double seconds = 0;
  int64_t peak_bytes = 0;  // resident, of the whole process so far
};

// A process that does steps when it is told to, and talks to nobody but this one: what
// ranks could do if they had nothing to tell each other.
//
// To be made before the first thread and before MPI, which do not survive a fork. It ends
// with this object, or with the process that made it.
class SilentProcess : NoCopy {
 public:
  using Step = std::function<void()>;

  // `make` is called in the new process, when it is first told to do steps.
  explicit SilentProcess(const std::function<Step()>& make);
  ~SilentProcess();

  // Do so many steps on these CPUs, and wait for the end. One step goes before them and
  // is not timed. Throws Error(kEnvironment) when the process has failed; it says why.
  StepsTaken run(int64_t num_steps, const std::vector<int>& cpus);

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};
}  // namespace zero::launcher
