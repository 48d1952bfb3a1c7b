#pragma once
#include <memory>
#include <vector>

#include "launcher/bench/options.h"
#include "launcher/bench/row.h"
#include "launcher/bench/silent_process.h"
#include "launcher/model.h"

namespace zero::launcher {

class EngineLoop;
class World;

// Time training steps of all ranks against processes that do not talk, one beside each
// rank, on the same cores in turn; and alone how much of the updates hides.
class StepBench {
 public:
  // Starts this rank's silent processes: to be made before World.
  StepBench(const BenchOptions& options, const ModelFamilies& models);
  ~StepBench();

  // Rows "engine" and "silent" tell tokens per second of all ranks and the peak memory of
  // one. The limit of "updates queued" and "updates in step" is a step without any;
  // "hidden" is how much of the time of an update in step() the queue saves. Collective,
  // the same rows on all ranks. After a throw, end all ranks before this object goes.
  std::vector<Row> run(const World& world);

 private:
  std::vector<Row> against_silence(const World& world, const std::vector<int>& cpus);
  std::vector<Row> hidden_updates(const std::vector<int>& cpus);
  SilentProcess::Step make_plain(bool with_optimizer) const;

  const BenchOptions options_;
  const ModelFamily& family_;
  const ModelShape shape_;
  SilentProcess without_optimizer_, with_adamw_;
  std::unique_ptr<EngineLoop> engine_, other_engine_;  // while they run
};

}  // namespace zero::launcher
