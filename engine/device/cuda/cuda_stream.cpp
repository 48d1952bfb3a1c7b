#include "engine/device/cuda/cuda_stream.h"

#include <iterator>
#include <utility>

#include "engine/device/cuda/cuda_check.h"

namespace zero {
namespace {

// A place in the work of a CUDA stream.
class CudaPoint final : public Point {
 public:
  CudaPoint(std::shared_ptr<CudaContext> context, const std::string& stream)
      : context_(std::move(context)), stream_(stream), event_(context_->take_event()) {}
  ~CudaPoint() override { context_->give_back(event_); }
  CudaPoint(const CudaPoint&) = delete;
  CudaPoint& operator=(const CudaPoint&) = delete;

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

void wait_on_host(void* argument) {
  auto& wait = *static_cast<CudaContext::HostWait*>(argument);
  try {
    wait.point->wait();
  } catch (...) {
    wait.context->fail(std::current_exception());
  }
  wait.context->remove(wait);
}

}  // namespace

CudaContext::~CudaContext() {
  for (const cudaEvent_t event : free_events_) cudaEventDestroy(event);
}

void CudaContext::use() const { check_cuda(cudaSetDevice(index_), "choosing a GPU"); }

void CudaContext::try_use() const noexcept { cudaSetDevice(index_); }

cudaEvent_t CudaContext::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      const cudaEvent_t event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check_cuda(
      cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventBlockingSync),
      "making an event");
  return event;
}

void CudaContext::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  free_events_.push_back(event);
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
  if (kind == Kind::kDefault) return;
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
             "making stream " + name_);
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
  CudaContext::HostWait& wait = context_->add_wait(point);
  check_cuda(cudaLaunchHostFunc(stream_, &wait_on_host, &wait),
             "a wait of stream " + name_);
}

void CudaStream::synchronize() {
  context_->use();
  check_cuda(cudaStreamSynchronize(stream_), "waiting for stream " + name_);
  context_->throw_failure();
}

CudaStream& as_cuda_stream(Stream& stream) { return dynamic_cast<CudaStream&>(stream); }

}  // namespace zero
