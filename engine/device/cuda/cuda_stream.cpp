#include "engine/device/cuda/cuda_stream.h"

#include <nvtx3/nvToolsExt.h>

#include <cmath>
#include <iterator>
#include <utility>

namespace zero {
namespace {

// A place in the work of a CUDA stream.
class CudaPoint final : public Point {
 public:
  CudaPoint(std::shared_ptr<CudaContext> context, const std::string& stream)
      : context_(std::move(context)),
        stream_(stream),
        event_(context_->take_event(CudaContext::EventKind::kOrder)) {}
  ~CudaPoint() override { context_->give_back(event_, CudaContext::EventKind::kOrder); }

  bool is_reached() const override {
    context_->try_use();
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) cudaGetLastError();
    return state != cudaErrorNotReady;
  }
  void wait() const override {
    context_->try_use();
    check_cuda(cudaEventSynchronize(event_), "waiting for stream " + stream_);
    context_->throw_failure();
  }

  bool is_of(const CudaContext& context) const { return context_.get() == &context; }
  cudaEvent_t event() const { return event_; }

 private:
  const std::shared_ptr<CudaContext> context_;
  const std::string stream_;
  const cudaEvent_t event_;
};

class CudaStamp final : public Stamp {
 public:
  explicit CudaStamp(std::shared_ptr<CudaContext> context)
      : context_(std::move(context)),
        event_(context_->take_event(CudaContext::EventKind::kTime)) {}
  ~CudaStamp() override { context_->give_back(event_, CudaContext::EventKind::kTime); }

  std::optional<int64_t> ns() const override {
    if (!ns_) ns_ = context_->time_of(event_);
    return ns_;
  }
  cudaEvent_t event() const { return event_; }

 private:
  const std::shared_ptr<CudaContext> context_;
  mutable cudaEvent_t event_;
  mutable std::optional<int64_t> ns_;
};

void wait_for(CudaContext& context, const Point& point) {
  try {
    point.wait();
  } catch (...) {
    context.fail(std::current_exception());
  }
}

void wait_on_host(void* argument) {
  auto& wait = *static_cast<CudaContext::HostWait*>(argument);
  wait_for(*wait.context, *wait.point);
  wait.context->remove(wait);
}

}  // namespace

CudaContext::~CudaContext() {
  for (const auto& events : free_events_) {
    for (const cudaEvent_t event : events) cudaEventDestroy(event);
  }
  if (clock_event_) cudaEventDestroy(clock_event_);
}

void CudaContext::use() const { check_cuda(cudaSetDevice(index_), "choosing a GPU"); }

void CudaContext::try_use() const noexcept { cudaSetDevice(index_); }

cudaEvent_t CudaContext::take_event(EventKind kind) {
  {
    const std::lock_guard lock(mutex_);
    auto& free = free_events_[static_cast<int>(kind)];
    if (!free.empty()) {
      const cudaEvent_t event = free.back();
      free.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(
                 &event, cudaEventBlockingSync |
                             (kind == EventKind::kOrder ? cudaEventDisableTiming : 0u)),
             "making an event");
  return event;
}

void CudaContext::give_back(cudaEvent_t event, EventKind kind) {
  const std::lock_guard lock(mutex_);
  free_events_[static_cast<int>(kind)].push_back(event);
}

void CudaContext::set_clock(cudaStream_t stream) {
  use();
  clock_event_ = take_event(EventKind::kTime);
  check_cuda(cudaEventRecord(clock_event_, stream), "setting the clock");
  check_cuda(cudaEventSynchronize(clock_event_), "setting the clock");
  clock_ns_ = Trace::now_ns();
}

// CUDA tells milliseconds between two events as a float: a clock that goes along with the
// events keeps them small.
std::optional<int64_t> CudaContext::time_of(cudaEvent_t& event) {
  constexpr float kLongMs = 1000;
  try_use();
  const std::lock_guard lock(mutex_);
  float ms = 0;
  if (cudaEventElapsedTime(&ms, clock_event_, event) != cudaSuccess) {
    cudaGetLastError();  // it is not there yet, or whoever waits is told
    return std::nullopt;
  }
  const int64_t ns = clock_ns_ + std::llround(static_cast<double>(ms) * 1e6);
  if (ms > kLongMs) {
    std::swap(clock_event_, event);
    clock_ns_ = ns;
  }
  return ns;
}

// What neither lies in is somebody else's: activations are LibTorch's.
void CudaContext::count_copy(const void* to, const void* from, int64_t bytes) {
  const bool enters = blocks_.hold(to), leaves = blocks_.hold(from);
  if (enters && !leaves) copied_in_ += bytes;
  if (leaves && !enters) copied_out_ += bytes;
}

CudaContext::HostWait& CudaContext::add_wait(std::shared_ptr<const Point> point) {
  const std::lock_guard lock(mutex_);
  HostWait& wait = waits_.emplace_back(HostWait{std::move(point), this, {}});
  wait.self = std::prev(waits_.end());
  return wait;
}

void CudaContext::remove(HostWait& wait) {
  const std::lock_guard lock(mutex_);
  waits_.erase(wait.self);
}

void CudaContext::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
}

void CudaContext::throw_failure() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

CudaStream::CudaStream(std::shared_ptr<CudaContext> context, std::string name, Kind kind)
    : context_(std::move(context)), name_(std::move(name)) {
  context_->use();
  if (kind == Kind::kOwn)
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "making stream " + name_);
  gate_ = StreamGate::make(stream_);
}

CudaStream::~CudaStream() {
  context_->try_use();
  cudaStreamSynchronize(stream_);  // who waited has been told of a failure already
  if (stream_) cudaStreamDestroy(stream_);
}

void CudaStream::copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return;
  context_->use();
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
             "a copy in stream " + name_);
  context_->count_copy(to, from, bytes);
}

void CudaStream::set_bytes(void* to, int value, int64_t bytes) {
  if (bytes == 0) return;
  context_->use();
  check_cuda(cudaMemsetAsync(to, value, bytes, stream_), "a fill in stream " + name_);
}

void CudaStream::record(Event& event) {
  context_->use();
  auto point = std::make_shared<CudaPoint>(context_, name_);
  check_cuda(cudaEventRecord(point->event(), stream_), "an event of stream " + name_);
  event.renew(std::move(point));
}

std::shared_ptr<const Stamp> CudaStream::stamp() {
  context_->use();
  auto stamp = std::make_shared<CudaStamp>(context_);
  check_cuda(cudaEventRecord(stamp->event(), stream_), "a stamp of stream " + name_);
  return stamp;
}

// CUDA remembers what an event means now, so that its next record is none of our
// business.
void CudaStream::wait(const Event& event) {
  context_->throw_failure();
  const std::shared_ptr<const Point> point = event.latest();
  if (!point) return;
  context_->use();
  const auto* ours = dynamic_cast<const CudaPoint*>(point.get());
  if (ours && ours->is_of(*context_)) {
    check_cuda(cudaStreamWaitEvent(stream_, ours->event()), "a wait of stream " + name_);
    return;
  }
  if (point->is_reached()) {  // a failure of it is told all the same
    wait_for(*context_, *point);
    return;
  }
  const auto* of_host = dynamic_cast<const HostPoint*>(point.get());
  if (gate_ && of_host) return wait_at_gate(*of_host);
  CudaContext::HostWait& wait = context_->add_wait(point);
  check_cuda(cudaLaunchHostFunc(stream_, &wait_on_host, &wait),
             "a wait of stream " + name_);
}

void CudaStream::wait_at_gate(const HostPoint& point) {
  const int64_t wait = gate_->queue_wait(stream_, "a wait of stream " + name_);
  point.tell([wait, gate = gate_, context = context_](std::exception_ptr failure) {
    if (failure) context->fail(std::move(failure));
    gate->open(wait);
  });
}

void CudaStream::synchronize() {
  context_->use();
  check_cuda(cudaStreamSynchronize(stream_), "waiting for stream " + name_);
  context_->throw_failure();
}

CudaStream& as_cuda_stream(Stream& stream) { return dynamic_cast<CudaStream&>(stream); }

const Trace::Listener kNvtxRanges{[](const char* name) { nvtxRangePushA(name); },
                                  [] { nvtxRangePop(); }};

}  // namespace zero
