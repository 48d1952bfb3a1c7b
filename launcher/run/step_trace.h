#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "engine/watch/trace.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// Chrome's trace event format, an array that chrome://tracing and Perfetto open: a
// complete event for each span, with times in microseconds of CLOCK_MONOTONIC; the
// process is the rank.
std::string to_chrome(const std::vector<Trace::Lane>& lanes, int rank);

// Record the steps that --trace names, and write them to RUN/trace_00003.json of rank 3:
// behind the last of them, or when the run leaves them before.
//
// A file is there as a whole or not at all; one that cannot be written stops no run.
class StepTrace : NoCopy {
 public:
  StepTrace(const StepRange& steps, const std::string& run, int rank);
  ~StepTrace();

  void begin(int64_t step);  // which is about to be made
  void end(int64_t step);    // which is done, with all that follows it

 private:
  void write();

  const StepRange steps_;
  const std::string path_;
  const int rank_;
  bool is_recording_ = false, has_recorded_ = false;
};

}  // namespace zero::launcher
