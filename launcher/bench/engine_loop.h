#pragma once
#include <cstdint>
#include <memory>

#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero {
class Engine;
class Ranks;
}  // namespace zero

namespace zero::launcher {

class Runner;

// Tokens that nobody has written; the same for the same seed.
Batch made_up_batch(int64_t rows, const ModelShape& shape, uint64_t seed);

// Training steps of an engine, one micro-batch a step, for the clock alone.
class EngineLoop {
 public:
  // Of the settings, those that the engine knows count. Collective.
  EngineLoop(const ModelFamily& family, const ModelShape& shape, const Settings& settings,
             std::unique_ptr<Ranks> ranks);
  ~EngineLoop();

  // Seconds of so many steps in a row: one step goes before them, so that the first of
  // them finds queued updates as each does, and what the last one queues is waited for
  // afterwards. Without updates gradients are made and forgotten. Collective.
  double run(int64_t num_steps, bool with_updates = true);
  void step(bool with_updates = true);

  Engine& engine() { return *engine_; }
  int64_t tokens_per_step() const { return rows_ * shape_.seq_len; }  // of this rank

 private:
  const ModelShape shape_;
  const int64_t rows_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Runner> runner_;
  uint64_t num_batches_ = 0;
};

}  // namespace zero::launcher
