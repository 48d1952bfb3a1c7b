#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/no_copy.h"

namespace zero {

// Run loops over index ranges on a fixed number of threads.
//
// The chunks of a loop depend on (count, grain) alone, never on the number of threads, so
// a body that works on each chunk by itself gives the same bits on any machine.
// Neighbouring chunks go to the same thread, as a rule to the same one in the next loop
// of equal size: memory that a loop touched first stays near the core that needs it.
//
// The pool takes its CPUs from the constructing thread's affinity mask and keeps them:
// bind the process first (affinity.h). Several threads may call parallel_for() at once.
class ThreadPool : NoCopy {
 public:
  // `num_threads` counts the caller of parallel_for(); 0 takes one per CPU of the
  // affinity mask. Throws std::invalid_argument when it is negative.
  explicit ThreadPool(int num_threads = 0);
  ~ThreadPool();

  int num_threads() const { return num_threads_; }

  // Call body(begin, end) once for each chunk [i * grain, min((i + 1) * grain, count)),
  // and return when all are done. With one thread everything runs in order on the caller.
  //
  // Each chunk runs in the default floating-point environment. An exception of the body
  // reaches the caller; chunks that have not begun by then may be left out. Throws
  // std::invalid_argument for a negative count or a grain below 1.
  void parallel_for(int64_t count, int64_t grain,
                    const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct Workers;

  int num_threads_;
  std::unique_ptr<Workers> workers_;  // none when num_threads_ is 1
};

// Versions of oneTBB: the headers that this was built with, and the library that is
// loaded.
std::pair<std::string, std::string> tbb_versions();

}  // namespace zero
