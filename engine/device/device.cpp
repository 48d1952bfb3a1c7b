#include "engine/device/device.h"

#include <utility>

namespace zero {

bool Event::query() const {
  const auto point = latest();
  return !point || point->is_reached();
}

void Event::synchronize() const {
  if (const auto point = latest()) point->wait();
}

std::shared_ptr<const Point> Event::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

void Event::renew(std::shared_ptr<const Point> point) {
  const std::lock_guard lock(mutex_);
  latest_ = std::move(point);
}

}  // namespace zero
