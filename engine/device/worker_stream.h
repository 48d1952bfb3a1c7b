#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/device/chaos.h"
#include "engine/device/host_device.h"

namespace zero {

class Completion;

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
  void copy(void* to, const void* from, int64_t bytes) override;
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
