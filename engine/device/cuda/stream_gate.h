#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/no_copy.h"

namespace zero {

// Where a stream of the GPU waits for the host: a number in memory that both see. The
// stream's waits are numbered, and the number there is that of the last one that may end.
//
// A function of the host that waits in a stream would do it too. It ends later, and CUDA
// runs such functions one after the other, so that one that waits holds up all others.
class StreamGate : NoCopy {
 public:
  // Null where the driver or the GPU has no such waits.
  static std::shared_ptr<StreamGate> make(cudaStream_t stream);
  ~StreamGate();

  // Queue a wait. From any thread. Throws Error(kEnvironment) that says what was being
  // done.
  int64_t queue_wait(cudaStream_t stream, const std::string& doing);
  // That wait may end, once those before it may. From any thread.
  void open(int64_t wait);

 private:
  using WaitValue = decltype(cuStreamWaitValue32);

  StreamGate(WaitValue* wait_value, uint32_t* number)
      : wait_value_(wait_value), number_(number) {}
  static WaitValue* find_wait_value();
  // Until the number is `value`, or one of the next 2^31.
  CUresult queue_wait_for(cudaStream_t stream, int64_t value) const;

  WaitValue* const wait_value_;
  uint32_t* const number_;   // pinned: the low half of `passed_`
  std::mutex queueing_;      // waits are queued in the order of their numbers
  int64_t last_ = 0;         // guarded by queueing_: of the waits that were queued
  std::mutex mutex_;         // never held while CUDA is called: it may wait for open()
  int64_t passed_ = 0;       // guarded by mutex_
  std::set<int64_t> early_;  // guarded by mutex_: that may end, unlike one before them
};

}  // namespace zero
