#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/run/saved_run.h"

namespace zero {
class Ranks;
class Engine;
}  // namespace zero

namespace zero::launcher {

class Runner;
class World;

// What a checkpoint says about itself; the same on every rank.
struct FoundCheckpoint {
  std::string folder;
  SavedRun run;
};

// The step's folder `from`, or the newest one of a run's folder; collective. Rank 0 alone
// looks, as a run may just be saving. Throws Error(kUsage) that names --from.
FoundCheckpoint find_saved_run(const std::string& from, Ranks& ranks);

// A model out of a checkpoint, for use and not for training: its weights are sharded over
// the ranks, without gradients and optimizer state.
class LoadedModel {
 public:
  // `settings`: the checkpoint's, with what the command line changes. Collective. The
  // families must outlive this object.
  LoadedModel(const FoundCheckpoint& checkpoint, const Settings& settings,
              const ModelFamilies& models, const World& world,
              std::unique_ptr<Ranks> ranks);
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  Runner& runner() { return *runner_; }
  Ranks& control();
  const ModelShape& shape() const { return shape_; }
  const BatchPlan& batch() const { return batch_; }  // a pass for each rank
  int64_t step() const { return step_; }             // of the checkpoint

 private:
  // Constant after construction.
  ModelShape shape_;
  BatchPlan batch_;
  int64_t step_ = 0;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Runner> runner_;
};

}  // namespace zero::launcher
