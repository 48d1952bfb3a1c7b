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

// What weights, gradients and updates work with; it outlives them, but for collectives,
// which an engine leaves when its streams are done and updates may still run.
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
  // Of the same member of all groups, where there are several: over the device's memory,
  // unless ranks share GPUs, and over the host's, which may be the same.
  Collectives* across = nullptr;
  Collectives* across_host = nullptr;
};

}  // namespace zero
