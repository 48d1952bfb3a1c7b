#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/blocks.h"
#include "engine/device/cuda/stream_gate.h"
#include "engine/device/device.h"
#include "engine/watch/trace.h"
#include "zero/errors.h"

namespace zero {

// The one place that reads what CUDA returns. Throws Error(kEnvironment) that says what
// was being done.
inline void check_cuda(cudaError_t result, const std::string& doing) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // told once: later calls have their own results
  throw Error(ExitCode::kEnvironment,
              "CUDA: " + std::string(cudaGetErrorString(result)) + " (" +
                  cudaGetErrorName(result) + ")",
              doing,
              "nvidia-smi and dmesg tell more of the GPU; --device cpu does without");
}

// What the streams of one GPU share: CUDA's events, used again and again, what streams
// wait for in the host, and the first failure of that; the engine's memory there, what
// was copied from and to it, and a clock. From any thread.
class CudaContext : NoCopy {
 public:
  // What a stream waits for in a callback. CUDA does not call back once it has failed, so
  // it is ours.
  struct HostWait {
    std::shared_ptr<const Point> point;
    CudaContext* context = nullptr;
    std::list<HostWait>::iterator self;
  };

  explicit CudaContext(int index) : index_(index) {}
  ~CudaContext();

  // CUDA calls of the calling thread mean this GPU from now on.
  void use() const;
  void try_use() const noexcept;  // where what follows tells of a failure, or nobody does

  enum class EventKind { kOrder, kTime };
  cudaEvent_t take_event(EventKind kind);
  void give_back(cudaEvent_t event, EventKind kind);

  // Set the clock that tells when streams got somewhere by the host's, once, before
  // anybody asks; waits for what is queued on the stream.
  void set_clock(cudaStream_t stream);
  // When a stream got to an event of kTime; nothing as long as it did not. The event may
  // become another one, which is as good for what comes.
  std::optional<int64_t> time_of(cudaEvent_t& event);

  Blocks& blocks() { return blocks_; }
  void count_copy(const void* to, const void* from, int64_t bytes);
  Device::Copied copied() const { return {copied_in_.load(), copied_out_.load()}; }

  HostWait& add_wait(std::shared_ptr<const Point> point);
  void remove(HostWait& wait);

  void fail(std::exception_ptr failure);
  void throw_failure() const;  // if there is one

 private:
  const int index_;
  mutable std::mutex mutex_;
  std::vector<cudaEvent_t> free_events_[2];  // guarded by mutex_; of each kind
  cudaEvent_t clock_event_ = nullptr;        // guarded by mutex_: reached at clock_ns_
  int64_t clock_ns_ = 0;                     // guarded by mutex_
  std::list<HostWait> waits_;                // guarded by mutex_
  std::exception_ptr failure_;               // guarded by mutex_
  Blocks blocks_;
  std::atomic<int64_t> copied_in_{0}, copied_out_{0};
};

// A queue of the GPU.
class CudaStream final : public Stream {
 public:
  // The default one, that LibTorch uses, or one that runs beside it.
  enum class Kind { kDefault, kOwn };

  CudaStream(std::shared_ptr<CudaContext> context, std::string name, Kind kind);
  ~CudaStream() override;  // waits for what is queued

  const std::string& name() const override { return name_; }
  void copy(void* to, const void* from, int64_t bytes) override;
  void set_bytes(void* to, int value, int64_t bytes) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  std::shared_ptr<const Stamp> stamp() override;
  void synchronize() override;

  // For libraries that queue work of their own.
  cudaStream_t handle() const { return stream_; }
  std::shared_ptr<CudaContext> shared_context() const { return context_; }

 private:
  void wait_at_gate(const HostPoint& point);

  const std::shared_ptr<CudaContext> context_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<StreamGate> gate_;  // or none
};

// The same stream, seen as one of CUDA's. It must be one.
CudaStream& as_cuda_stream(Stream& stream);

// Makes each span a range of the calling thread for NVIDIA's profilers. Next to nothing
// where none looks on.
extern const Trace::Listener kNvtxRanges;

}  // namespace zero
