#include "engine/device/delays.h"

#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

namespace zero {
namespace {

std::atomic<bool> are_delays_set{false};
std::mutex delays_mutex;
std::map<std::string, int, std::less<>> delays_ms;  // guarded by delays_mutex

int delay_of(std::string_view name) {
  std::lock_guard lock(delays_mutex);
  auto found = delays_ms.find(name);
  return found == delays_ms.end() ? 0 : found->second;
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
  std::lock_guard lock(delays_mutex);
  delays_ms = {milliseconds.begin(), milliseconds.end()};
  are_delays_set = !delays_ms.empty();
}

void delay_point(std::string_view name) {
  if (!are_delays_set.load(std::memory_order_relaxed)) return;
  const int delay_ms = delay_of(name);
  if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
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
  // Half of them run at once: late and early operations must meet.
  return draw & 1 ? 0 : static_cast<int64_t>((draw >> 1) % (max_delay_us_ + 1));
}

}  // namespace zero
