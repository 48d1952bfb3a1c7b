#pragma once
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "engine/device/device.h"

namespace zero {

// One recorded point of a stream: pending, then completed once, for good, perhaps with a
// failure.
class Completion {
 public:
  void complete(std::exception_ptr failure);
  bool is_complete() const;
  std::exception_ptr wait() const;  // blocks; the failure, or null

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_complete_ = false;
  std::exception_ptr failure_;
};

// An event of host streams: a handle whose latest record can be replaced while earlier
// ones are waited for.
class HostEvent final : public Event {
 public:
  bool query() const override;
  void synchronize() const override;

  std::shared_ptr<Completion> renew();  // what record() does: a new pending point
  std::shared_ptr<const Completion> latest() const;  // null: never recorded

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> latest_;
};

// The same event, seen as one of the host. Throws Error(kEnvironment) if it is a GPU's.
HostEvent& as_host_event(Event& event);
const HostEvent& as_host_event(const Event& event);

}  // namespace zero
