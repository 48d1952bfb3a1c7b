#pragma once
#include <memory>

#include "engine/engine_forward.h"
#include "engine/engine_resources.h"
#include "engine/engine_step.h"
#include "engine/engine_units.h"
#include "engine/engine_values.h"
#include "engine/save/saves.h"
#include "zero/engine.h"

namespace zero {

// An Engine's parts, in the order in which they are made; each knows those above it.
struct Engine::Impl {
  Impl(std::shared_ptr<torch::nn::Module> module, const Options& options,
       std::unique_ptr<Ranks> ranks)
      : own(std::move(module), options, std::move(ranks)) {}

  // Before somebody reads or writes shards: nobody updates or saves them any more, and a
  // GPU, which nobody waits for, gathers none. On the host a forward has all it gathered.
  void await_shards() {
    saves.join();
    own.updates->finish();
    if (own.device->has_own_memory()) own.comm_stream->synchronize();
  }

  EngineResources own;
  EngineValues values{own};
  EngineUnits units{own};
  EngineForward forward{own, units};
  EngineStep step{own, units, forward, values};
  Saves saves{own.workplace(), own.model.params, *own.updates, *own.control};
};

}  // namespace zero
