#pragma once
#include <memory>
#include <vector>

#include "engine/device/device.h"
#include "engine/plan/unit_plan.h"
#include "engine/step/update_queue.h"
#include "engine/weights/workplace.h"
#include "zero/engine.h"

namespace zero {

class Save;
class SaveInProgress;
class SaveJob;
class WayOut;

// The saves of an engine, one at a time, which a thread of their own makes beside the
// steps: unit by unit, each behind its update, and before its next one.
class Saves : NoCopy {
 public:
  // Of parameters that are planned there; `control` are the ranks of the training thread.
  Saves(const Workplace& at, const std::vector<ParamDescription>& params,
        UpdateQueue& updates, Ranks& control);
  ~Saves();  // waits for the last one

  // Shards as a save reads them, where they lie now.
  std::vector<ShardView> views();
  std::vector<int> units_of_params() const;

  // Throw what went wrong with the save before, if nobody has been told. Collective.
  void finish_last();
  // finish_last() comes first. Collective.
  std::shared_ptr<Save> start(std::unique_ptr<SaveJob> job, bool step_throws);

  // Blocks until this rank's part of the save has been written, or has failed. Local.
  void join() noexcept;
  // Bytes that saves have taken from a GPU so far.
  int64_t bytes_from_gpu() const;
  // All ranks find out whether it is done by now; throws as SaveOptions::step_throws
  // says. Collective.
  void end_step();

 private:
  const Workplace at_;
  const std::vector<ParamDescription>& params_;
  UpdateQueue& updates_;
  Ranks& control_;
  std::shared_ptr<SaveInProgress> last_;  // null: there was none
  std::vector<Event> read_;               // of each unit
  // Made when they are first needed.
  std::unique_ptr<Ranks> ranks_;        // of the thread
  std::unique_ptr<Stream> gpu_stream_;  // on which the state of a GPU leaves
  std::unique_ptr<WayOut> gpu_;
  std::unique_ptr<HostStream> thread_;  // last: it uses what is above
};

}  // namespace zero
