#include "engine/device/delays.h"

#include <atomic>
#include <chrono>
#include <functional>
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

// Finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators").
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
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

Chaos::Chaos(uint64_t seed, const std::string& stream_name, int64_t max_delay_us)
    : seed_(seed == 0 ? 0 : mix(seed ^ std::hash<std::string>()(stream_name)) | 1),
      max_delay_us_(max_delay_us) {}

void Chaos::delay() {
  const int64_t delay_us = draw_us();
  if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
}

int64_t Chaos::draw_us() {
  if (seed_ == 0 || max_delay_us_ <= 0) return 0;
  const uint64_t draw = mix(seed_ + num_operations_.fetch_add(1));
  if (draw & 1)
    return 0;  // half of them run at once: late and early operations must meet
  return static_cast<int64_t>((draw >> 1) % (max_delay_us_ + 1));
}

}  // namespace zero
