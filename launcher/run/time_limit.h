#pragma once
#include <algorithm>
#include <cstdint>

namespace zero::launcher {

// Says when a run must save to be done before its time is over.
//
// What is kept back is the longest step so far and the time of the last save; before the
// first save a step's time stands for it.
class TimeLimit {
 public:
  explicit TimeLimit(int64_t limit_seconds) : limit_(limit_seconds) {}  // 0: no limit

  void note_step(double seconds) { longest_step_ = std::max(longest_step_, seconds); }
  void note_save(double seconds) { last_save_ = seconds; }

  double margin() const {
    return longest_step_ + (last_save_ < 0 ? longest_step_ : last_save_);
  }
  // `age_seconds`: how long the process has run.
  bool is_near(double age_seconds) const {
    return limit_ > 0 && age_seconds + margin() >= static_cast<double>(limit_);
  }

 private:
  int64_t limit_;
  double longest_step_ = 0, last_save_ = -1;
};

// Seconds since this process was started, by the system's own record.
double process_age();

}  // namespace zero::launcher
