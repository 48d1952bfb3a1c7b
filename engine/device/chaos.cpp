#include "engine/device/chaos.h"

#include <chrono>
#include <functional>
#include <thread>

namespace zero {

namespace {

// Finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators").
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

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
