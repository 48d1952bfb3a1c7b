#include "engine/device/delays.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace zero {

namespace {

struct Delays {
  std::atomic<bool> are_set{false};
  std::mutex mutex;
  std::map<std::string, int, std::less<>> milliseconds;  // guarded by mutex
};

Delays& delays() {
  static Delays instance;
  return instance;
}

int delay_of(std::string_view name) {
  std::lock_guard lock(delays().mutex);
  auto found = delays().milliseconds.find(name);
  return found == delays().milliseconds.end() ? 0 : found->second;
}

}  // namespace

void set_delays(std::map<std::string, int> milliseconds) {
  std::lock_guard lock(delays().mutex);
  delays().milliseconds.clear();
  delays().milliseconds.insert(milliseconds.begin(), milliseconds.end());
  delays().are_set = !delays().milliseconds.empty();
}

void delay_point(std::string_view name) {
  if (!delays().are_set.load(std::memory_order_relaxed)) return;
  if (int delay_ms = delay_of(name); delay_ms > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  }
}

}  // namespace zero
