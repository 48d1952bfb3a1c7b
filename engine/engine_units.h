#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine_resources.h"
#include "engine/step/torch/backward_pass.h"
#include "engine/unit/attached_unit.h"
#include "engine/unit/batch_norm_ranks.h"
#include "engine/unit/unit_borders.h"
#include "engine/weights/torch/activation_store.h"
#include "engine/weights/torch/weight_streamer.h"

namespace zero {

// The units of an engine's model as long as they are attached: their weights come and go,
// and their calls run here.
struct EngineUnits {
  // The model's parameters become views of gathered memory, its buffers move to the
  // device. Shards have their first values.
  explicit EngineUnits(EngineResources& own);
  ~EngineUnits();  // detaches them, and waits for all that writes into their weights

  EngineResources& own;
  Phase phase;
  const UnitBorders borders;
  WeightStreamer weights;
  BackwardPass pass;
  std::shared_ptr<ActivationStore> activations;  // null: they stay where they are

 private:
  void attach();
  void detach();

  std::vector<std::shared_ptr<AttachedUnit>> attached_;
  std::optional<SyncedBatchNorms> synced_;
};

}  // namespace zero
