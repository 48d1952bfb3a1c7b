#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/no_copy.h"
#include "zero/reports.h"

namespace zero {

class Engine;

// The log of a program of one's own: FOLDER/metrics.jsonl, with the records that
// `zero_launch train` writes, of which `zero_launch report FOLDER` makes a page.
//
//   RunLog log(folder, engine);
//   while (...) {
//     engine.backward(engine.forward(...), num_targets);
//     log.step(engine.step());
//   }
//   log.end();
//
// Each record has the time since the call before it. Rank 0 alone writes, and each line
// at once. A log that cannot be written is told by one warning and stops nothing: lines
// that were lost are counted, as train does.
class RunLog : NoCopy {
 public:
  // Makes the folder where there is none. Records of steps behind engine.num_steps(),
  // which are done again, are taken back: load the checkpoint first. Collective; the
  // engine is kept.
  RunLog(const std::string& folder, Engine& engine);
  ~RunLog();

  // --- local
  void step(const StepReport& report);
  void eval(double loss, int64_t num_targets);  // loss: the mean over all targets
  void end();                                   // all steps are done

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // rank 0 only
};

}  // namespace zero
