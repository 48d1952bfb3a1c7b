#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace zero {

// Make the named points of the code slow, for tests of overlap and of races.
// Process-wide; replaces what was set before. A point costs one atomic load while nothing
// is set.
void set_delays(std::map<std::string, int> milliseconds);
void delay_point(std::string_view name);

// Delay the operations of one stream at random, so that an ordering that only luck made
// right shows.
//
// The delays are a function of seed, stream name and the operation's number. Thread-safe.
class Chaos {
 public:
  Chaos() = default;  // never delays
  Chaos(uint64_t seed, const std::string& stream_name, int64_t max_delay_us);
  void delay();
  int64_t draw_us();  // what delay() would sleep now, in microseconds; counts as it does

 private:
  uint64_t seed_ = 0;
  int64_t max_delay_us_ = 0;
  std::atomic<uint64_t> num_operations_{0};
};

}  // namespace zero
