#pragma once
#include "engine/comm/collectives.h"
#include "engine/device/device.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "engine/weights/shard_store.h"
#include "offload/thread_pool.h"
#include "zero/options.h"

namespace zero {

class ShardKernels;

// What weights, gradients and updates work with; it outlives them, but for `comm` and
// `across`, which an engine leaves when its streams are done and updates may still run.
struct Workplace {
  const UnitPlan& plan;
  const MemoryPlan& memory;
  const Options& options;
  ShardStore& shards;
  Device& device;
  Collectives& comm;  // of this rank's group
  ThreadPool& threads;
  ShardKernels* kernels = nullptr;  // null where no GPU trains
  int rank = 0;
  Collectives* across = nullptr;  // of the same member of all groups; null: there is one
};

}  // namespace zero
