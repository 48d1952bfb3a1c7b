#pragma once
#include <cstdint>
#include <string>

#include "launcher/run/metrics.h"

namespace zero::launcher {

// "step    12/1000 | loss 3.2826 | norm 1.04 | lr 3.0e-04 | 709 ms | 38.3k tok/s | eta
// 28m"
std::string step_line(const StepRecord& record, int64_t num_steps, double eta_seconds);

// A line of a page: "  ranks    2 with ...".
std::string labelled(const std::string& label, const std::string& text);

std::string with_commas(int64_t count);      // 1,234,567
std::string short_count(double count);       // 38.3k
std::string short_duration(double seconds);  // 28m
std::string short_bytes(int64_t bytes);      // 1.5 GiB

// Guess how long the rest takes, from the seconds of the last steps: the newest count
// most.
class Eta {
 public:
  void add_step(double seconds);
  double remaining_seconds(int64_t num_steps_left) const;

 private:
  double mean_ = 0;
  bool has_any_ = false;
};

}  // namespace zero::launcher
