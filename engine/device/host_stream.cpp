#include <pthread.h>

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/device/host_device.h"
#include "engine/watch/trace.h"
#include "zero/errors.h"

namespace zero {
namespace {

class WorkerPoint final : public HostPoint {
 public:
  explicit WorkerPoint(std::string stream) : stream_(std::move(stream)) {}

  void reach(std::exception_ptr failure) {
    std::vector<Reached> told;
    {
      std::lock_guard lock(mutex_);
      assert(!is_reached_);
      is_reached_ = true;
      failure_ = failure;
      told.swap(told_);
      // Under the lock: the last waiter may destroy us as soon as it is released.
      changed_.notify_all();
    }
    for (const Reached& reached : told) reached(failure);
  }

  void tell(Reached reached) const override {
    {
      std::lock_guard lock(mutex_);
      if (!is_reached_) return told_.push_back(std::move(reached));
    }
    reached(failure_);
  }

  bool is_reached() const override {
    std::lock_guard lock(mutex_);
    return is_reached_;
  }

  void wait() const override {
    std::unique_lock lock(mutex_);
    if (!is_reached_) {
      const Trace::Span span("wait for", stream_);
      changed_.wait(lock, [this] { return is_reached_; });
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  const std::string stream_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_reached_ = false;
  std::exception_ptr failure_;
  mutable std::vector<Reached> told_;  // guarded by mutex_
};

class HostStamp final : public Stamp {
 public:
  void reach() { ns_.store(Trace::now_ns(), std::memory_order_release); }
  std::optional<int64_t> ns() const override {
    const int64_t ns = ns_.load(std::memory_order_acquire);
    return ns == 0 ? std::nullopt : std::optional(ns);
  }

 private:
  std::atomic<int64_t> ns_{0};
};

// What both kinds of streams have.
class NamedStream : public HostStream {
 public:
  NamedStream(const std::string& name, const HostDeviceOptions& options)
      : name_(name), chaos_(options.chaos_seed, name, options.max_chaos_delay_us) {}
  const std::string& name() const final { return name_; }

 protected:
  const std::string name_;
  Chaos chaos_;
};

// A wait blocks the calling thread, a failure is thrown to it.
class InlineStream final : public NamedStream {
 public:
  using NamedStream::NamedStream;

  void enqueue(std::function<void()> operation) override {
    chaos_.delay();
    operation();
  }
  void record(Event& event) override { event.renew(nullptr); }
  void wait(const Event& event) override {
    chaos_.delay();
    event.synchronize();
  }
  std::shared_ptr<const Stamp> stamp() override {
    const auto stamp = std::make_shared<HostStamp>();
    stamp->reach();
    return stamp;
  }
  void synchronize() override {}
};

class WorkerStream final : public NamedStream {
 public:
  WorkerStream(const std::string& name, const HostDeviceOptions& options)
      : NamedStream(name, options), worker_([this] { work(); }) {
    pthread_setname_np(worker_.native_handle(), name_.substr(0, 15).c_str());
  }
  ~WorkerStream() override {
    push({});
    worker_.join();
  }

  void enqueue(std::function<void()> operation) override {
    push([this, operation = std::move(operation)] { run(operation); });
  }
  void record(Event& event) override {
    const auto point = std::make_shared<WorkerPoint>(name_);
    event.renew(point);
    push([this, point] { point->reach(failure_); });
  }
  void wait(const Event& event) override {
    // Now: a later record() is none of our business.
    if (auto point = event.latest()) enqueue([point] { point->wait(); });
  }
  std::shared_ptr<const Stamp> stamp() override {
    const auto stamp = std::make_shared<HostStamp>();
    push([stamp] { stamp->reach(); });
    return stamp;
  }
  void synchronize() override {
    Event end;
    record(end);
    end.synchronize();
  }

 private:
  // A failed stream skips work, and still completes points and stamps. Where there is no
  // item the worker ends.
  using Item = std::function<void()>;

  void push(Item item) {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(item));
    changed_.notify_one();
  }

  Item pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty(); });
    Item item = std::move(queue_.front());
    queue_.pop_front();
    return item;
  }

  void work() {
    while (const Item item = pop()) item();
  }

  void run(const std::function<void()>& operation) {
    if (failure_) return;
    chaos_.delay();
    try {
      operation();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  std::exception_ptr failure_;  // the worker's own

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;  // guarded by mutex_

  std::thread worker_;  // last: starts when everything above exists
};

}  // namespace

void HostStream::copy(void* to, const void* from, int64_t bytes) {
  enqueue([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

void HostStream::set_bytes(void* to, int value, int64_t bytes) {
  enqueue([=] {
    if (bytes > 0) std::memset(to, value, bytes);
  });
}

std::unique_ptr<HostStream> make_inline_stream(const std::string& name,
                                               const HostDeviceOptions& options) {
  return std::make_unique<InlineStream>(name, options);
}

std::unique_ptr<HostStream> make_worker_stream(const std::string& name,
                                               const HostDeviceOptions& options) {
  return std::make_unique<WorkerStream>(name, options);
}

}  // namespace zero
