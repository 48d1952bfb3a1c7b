#include "engine/device/host_stream.h"

#include <pthread.h>

#include <cassert>
#include <cstring>

#include "engine/errors.h"
#include "engine/trace.h"

namespace zero {

void Completion::complete(std::exception_ptr failure) {
  std::lock_guard lock(mutex_);
  assert(!is_complete_);
  is_complete_ = true;
  failure_ = std::move(failure);
  // Under the lock: the last waiter may destroy us as soon as it is released.
  changed_.notify_all();
}

bool Completion::is_complete() const {
  std::lock_guard lock(mutex_);
  return is_complete_;
}

std::exception_ptr Completion::wait() const {
  std::unique_lock lock(mutex_);
  if (is_complete_) return failure_;
  const Trace::Span span("wait for", stream_);
  changed_.wait(lock, [this] { return is_complete_; });
  return failure_;
}

bool HostEvent::query() const {
  auto point = latest();
  return !point || point->is_complete();
}

void HostEvent::synchronize() const {
  auto point = latest();
  if (!point) return;
  if (auto failure = point->wait()) std::rethrow_exception(failure);
}

std::shared_ptr<Completion> HostEvent::renew(const std::string& stream) {
  auto point = std::make_shared<Completion>(stream);
  std::lock_guard lock(mutex_);
  latest_ = point;
  return point;
}

std::shared_ptr<const Completion> HostEvent::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

HostEvent& as_host_event(Event& event) {
  return const_cast<HostEvent&>(as_host_event(static_cast<const Event&>(event)));
}

const HostEvent& as_host_event(const Event& event) {
  if (auto* host = dynamic_cast<const HostEvent*>(&event)) return *host;
  throw Error(ExitCode::kEnvironment,
              "an event of a GPU was used with a stream of the host", "host_event",
              "make streams and events by the same Device");
}

void HostStream::copy(void* to, const void* from, int64_t bytes) {
  enqueue([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

InlineStream::InlineStream(std::string name, const HostDeviceOptions& options)
    : name_(std::move(name)),
      chaos_(options.chaos_seed, name_, options.max_chaos_delay_us) {}

void InlineStream::enqueue(std::function<void()> operation) {
  chaos_.delay();
  operation();
}

void InlineStream::record(Event& event) {
  as_host_event(event).renew(name_)->complete(nullptr);
}

void InlineStream::wait(const Event& event) {
  chaos_.delay();
  as_host_event(event).synchronize();
}

std::unique_ptr<HostStream> make_inline_stream(const std::string& name) {
  return std::make_unique<InlineStream>(name);
}

WorkerStream::WorkerStream(std::string name, const HostDeviceOptions& options)
    : name_(std::move(name)),
      chaos_(options.chaos_seed, name_, options.max_chaos_delay_us),
      worker_([this] { work(); }) {
  pthread_setname_np(worker_.native_handle(), name_.substr(0, 15).c_str());
}

WorkerStream::~WorkerStream() {
  push({});
  worker_.join();
}

void WorkerStream::enqueue(std::function<void()> operation) {
  push({std::move(operation), nullptr});
}

void WorkerStream::record(Event& event) {
  push({nullptr, as_host_event(event).renew(name_)});
}

void WorkerStream::wait(const Event& event) {
  // Now: a later record() is none of our business.
  auto point = as_host_event(event).latest();
  if (!point) return;
  enqueue([point] {
    if (auto failure = point->wait()) std::rethrow_exception(failure);
  });
}

void WorkerStream::synchronize() {
  auto point = std::make_shared<Completion>(name_);
  push({nullptr, point});
  if (auto failure = point->wait()) std::rethrow_exception(failure);
}

void WorkerStream::push(Item item) {
  std::lock_guard lock(mutex_);
  queue_.push_back(std::move(item));
  changed_.notify_one();
}

WorkerStream::Item WorkerStream::pop() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !queue_.empty(); });
  Item item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

void WorkerStream::work() {
  for (;;) {
    const Item item = pop();
    if (item.point) {
      item.point->complete(failure_);
    } else if (item.operation) {
      run(item.operation);
    } else {
      return;
    }
  }
}

void WorkerStream::run(const std::function<void()>& operation) {
  if (failure_) return;
  chaos_.delay();
  try {
    operation();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

}  // namespace zero
