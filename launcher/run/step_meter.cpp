#include "launcher/run/step_meter.h"

#include "base/seconds.h"
#include "launcher/process/process.h"
#include "launcher/run/memory_check.h"
#include "zero/engine.h"

namespace zero::launcher {

StepMeter::StepMeter(Engine& engine)
    : engine_(&engine),
      begin_(std::chrono::steady_clock::now()),
      traffic_(engine.traffic()),
      busy_(engine.stream_seconds()) {}

double StepMeter::seconds() const { return seconds_since(begin_); }

StepRecord StepMeter::record(const StepReport& report) const {
  const double took = seconds();
  return {report,
          took,
          engine_->uses_gpu(),
          engine_->traffic() - traffic_,
          shares_of(engine_->stream_seconds() - busy_, took),
          free_host_bytes().value_or(-1),
          peak_resident_bytes()};
}

}  // namespace zero::launcher
