#include "engine/device/host_event.h"

#include <cassert>

#include "engine/errors.h"

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

std::shared_ptr<Completion> HostEvent::renew() {
  auto point = std::make_shared<Completion>();
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

}  // namespace zero
