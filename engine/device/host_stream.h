#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/device/delays.h"
#include "engine/device/host_device.h"

namespace zero {

// One recorded point of a stream: pending, then completed once, for good, perhaps with a
// failure.
class Completion {
 public:
  explicit Completion(std::string stream) : stream_(std::move(stream)) {}
  void complete(std::exception_ptr failure);
  bool is_complete() const;
  std::exception_ptr wait() const;  // blocks; the failure, or null

 private:
  const std::string stream_;
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

  // What record() of this stream does: a new pending point.
  std::shared_ptr<Completion> renew(const std::string& stream);
  std::shared_ptr<const Completion> latest() const;  // null: never recorded

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> latest_;
};

// The same event, seen as one of the host. Throws Error(kEnvironment) if it is a GPU's.
HostEvent& as_host_event(Event& event);
const HostEvent& as_host_event(const Event& event);

// A stream whose operations run at once in the calling thread; a wait blocks it, a
// failure is thrown to it.
class InlineStream final : public HostStream {
 public:
  explicit InlineStream(std::string name, const HostDeviceOptions& options = {});

  const std::string& name() const override { return name_; }
  void enqueue(std::function<void()> operation) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override {}

 private:
  std::string name_;
  Chaos chaos_;
};

// A stream of the host: one worker thread that sleeps when its queue is empty.
//
// Any thread may queue. The destructor runs what is queued, then joins; a failure that
// nobody fetched is dropped.
class WorkerStream final : public HostStream {
 public:
  WorkerStream(std::string name, const HostDeviceOptions& options);
  ~WorkerStream() override;
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  const std::string& name() const override { return name_; }
  void enqueue(std::function<void()> operation) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;

 private:
  // Either work, which a failed stream skips, or a recorded point, which it still
  // completes.
  struct Item {
    std::function<void()> operation;
    std::shared_ptr<Completion> point;
  };

  void push(Item item);
  Item pop();  // blocks; an empty item asks the worker to end
  void work();
  void run(const std::function<void()>& operation);

  const std::string name_;
  Chaos chaos_;
  std::exception_ptr failure_;  // the worker's own

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;  // guarded by mutex_

  std::thread worker_;  // last: starts when everything above exists
};

}  // namespace zero
