#pragma once
#include <cstdint>

#include "launcher/settings/settings.h"

namespace zero::launcher {

// Says when the next checkpoint is due, by steps or by the clock of rank 0.
//
// By the clock, saves are stretched so that they take at most kLargestShare of the time.
class SavePace {
 public:
  static constexpr double kLargestShare = 0.05;

  explicit SavePace(const SaveInterval& every) : every_(every) {}

  // `now_seconds` is of any clock that does not jump; a run that begins counts as a save
  // that took no time.
  void note_save(double now_seconds, double took_seconds);
  bool is_due(int64_t step, double now_seconds) const;

 private:
  SaveInterval every_;
  double last_end_ = 0, last_took_ = 0;
};

}  // namespace zero::launcher
