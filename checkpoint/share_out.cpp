#include "checkpoint/share_out.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace zero::checkpoint {
namespace {

// The error of the first job, of those that failed.
class FirstError {
 public:
  void keep(size_t job, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && job_ < job) return;
    job_ = job;
    error_ = std::move(error);
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  size_t job_ = 0;
  std::exception_ptr error_;
};

size_t num_threads_for(size_t num_jobs) {
  constexpr size_t kFewest = 8, kMost = 16;
  const size_t num_cores = std::thread::hardware_concurrency();
  return std::min(num_jobs, std::clamp(num_cores, kFewest, kMost));
}

}  // namespace

void share_out(size_t num_jobs, const std::function<Worker()>& make_worker) {
  std::atomic<size_t> next = 0;
  FirstError first;
  const auto take_jobs = [&] {
    const Worker worker = make_worker();
    for (size_t job = next++; job < num_jobs; job = next++) {
      try {
        worker(job);
      } catch (...) {
        first.keep(job, std::current_exception());
        next = num_jobs;
      }
    }
  };
  std::vector<std::future<void>> others;
  try {
    for (size_t i = num_threads_for(num_jobs); i > 1; --i)
      others.push_back(std::async(std::launch::async, take_jobs));
  } catch (const std::system_error&) {
    // no more threads
  }
  take_jobs();
  for (auto& other : others) other.get();
  first.rethrow();
}

}  // namespace zero::checkpoint
