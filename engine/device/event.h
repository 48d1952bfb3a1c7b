#pragma once
#include <memory>
#include <mutex>

namespace zero {

// One place in a stream's work: pending, then reached once, for good. From any thread.
class Point {
 public:
  virtual ~Point() = default;
  virtual bool is_reached() const = 0;
  // Blocks the host until it is. Throws the failure of the work before it.
  virtual void wait() const = 0;
};

// What streams tell each other how far they are by, of whatever devices.
//
// A stream may record it again and again: who waits means the latest record at the time
// of the wait. An event that was never recorded counts as reached. From any thread.
class Event {
 public:
  bool query() const;
  void synchronize() const;  // as Point::wait()

  // What streams do with it. Null: never recorded.
  std::shared_ptr<const Point> latest() const;
  void renew(std::shared_ptr<const Point> point);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Point> latest_;  // guarded by mutex_
};

}  // namespace zero
