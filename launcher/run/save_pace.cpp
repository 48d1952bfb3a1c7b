#include "launcher/run/save_pace.h"

#include <algorithm>

namespace zero::launcher {

void SavePace::note_save(double now_seconds, double took_seconds) {
  last_end_ = now_seconds;
  last_took_ = took_seconds;
}

bool SavePace::is_due(int64_t step, double now_seconds) const {
  if (every_.steps > 0) return step % every_.steps == 0;
  if (every_.seconds == 0) return false;
  // took / (pause + took) <= share
  const double stretched = last_took_ * (1 - kLargestShare) / kLargestShare;
  return now_seconds - last_end_ >=
         std::max(static_cast<double>(every_.seconds), stretched);
}

}  // namespace zero::launcher
