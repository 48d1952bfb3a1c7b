#pragma once
#include <memory>
#include <vector>

#include "engine/flat_params.h"
#include "engine/gather_ring.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "engine/shard_store.h"

namespace zero {

// Give units their full weights and take them away again, gathering the next unit while
// one runs.
//
// One rank alone computes on its own shards in place: then nothing is gathered and
// nothing is copied. Not thread-safe: the training thread alone drives it.
class WeightStreamer {
 public:
  enum class Direction { kForward, kBackward };

  // `params[u]`: the trainable, then the frozen parameters of unit u, in the order of its
  // layouts.
  WeightStreamer(const UnitPlan& plan, const MemoryPlan& memory, const Options& options,
                 ShardStore& shards, std::vector<std::vector<at::Tensor>> params,
                 Device& device, Communicator& comm, Stream& stream);
  ~WeightStreamer();

  // Nested calls are counted: the unit stays until the last reshard().
  void unshard(int unit, Direction direction);
  void reshard(int unit);
  // The shards changed: gathered weights are stale. No unit may be unsharded.
  void invalidate();

  int num_unsharded() const;
  int64_t num_gathers() const;
  const std::vector<at::Tensor>& trainable_params(int unit) const {
    return units_[unit].trainable->params();
  }

 private:
  struct UnitWeights {
    std::unique_ptr<FlatParams> trainable, frozen;
    GatherSource source;
    int num_users = 0;
    bool is_empty = true;  // no parameters at all
  };

  void prefetch_after(int unit, Direction direction);
  GatherRing& ring_of(int unit) { return unit == 0 ? *root_ : *ring_; }

  const UnitPlan& plan_;
  const bool in_place_;
  const int num_prefetch_;
  std::vector<UnitWeights> units_;
  std::unique_ptr<GatherRing> ring_;  // of all units but the root
  std::unique_ptr<GatherRing> root_;  // one slot
};

}  // namespace zero
