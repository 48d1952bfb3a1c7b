#include "engine/device/worker_stream.h"

#include <pthread.h>

#include <cstring>

#include "engine/device/host_event.h"

namespace zero {

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

void WorkerStream::copy(void* to, const void* from, int64_t bytes) {
  enqueue([=] {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

void WorkerStream::record(Event& event) { push({nullptr, as_host_event(event).renew()}); }

void WorkerStream::wait(const Event& event) {
  // Now: a later record() is none of our business.
  auto point = as_host_event(event).latest();
  if (!point) return;
  enqueue([point] {
    if (auto failure = point->wait()) std::rethrow_exception(failure);
  });
}

void WorkerStream::synchronize() {
  auto point = std::make_shared<Completion>();
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
