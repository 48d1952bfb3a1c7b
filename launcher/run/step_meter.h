#pragma once

#include <chrono>

#include "launcher/run/metrics.h"
#include "zero/reports.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

// Measures what this rank does from its construction on.
class StepMeter {
 public:
  explicit StepMeter(Engine& engine);

  double seconds() const;
  // What the log tells of a step that has come to its end now.
  StepRecord record(const StepReport& report) const;

 private:
  Engine* engine_;
  std::chrono::steady_clock::time_point begin_;
  Traffic traffic_;
  StreamSeconds busy_;
};

}  // namespace zero::launcher
