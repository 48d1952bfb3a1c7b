#pragma once
#include <set>
#include <utility>
#include <vector>

#include "engine/step/torch/gradient_shards.h"
#include "engine/step/update_queue.h"
#include "engine/weights/torch/weight_streamer.h"

namespace zero {

// Reduce the gradients of one backward pass as soon as the plan's order allows.
//
// Collectives must come in the same order on every rank, so units are reduced from the
// last to the first, the root at the end, whatever the order in which their backwards
// finish. A unit is ready when every call of it in the pass's graph has had its backward;
// one that was not called contributes zeros at its turn.
class BackwardPass {
 public:
  // Any address that tells one call from another.
  using CallId = const void*;

  BackwardPass(const UnitPlan& plan, GradientShards& gradients, WeightStreamer& weights,
               UpdateQueue& updates);

  // The calls of units that will get a backward.
  void begin(const std::vector<std::pair<int, CallId>>& calls);
  // Is it one of these, or one that the backward of one makes? Others run in hooks, and
  // their gradients are nobody's.
  bool has(int unit, CallId call) const {
    return num_inside_ > 0 || waiting_[unit].contains(call);
  }
  // The backward of a unit's graph, as long as this lives.
  class Inside : NoCopy {
   public:
    explicit Inside(BackwardPass& pass) : pass_(pass) { ++pass_.num_inside_; }
    ~Inside() { --pass_.num_inside_; }

   private:
    BackwardPass& pass_;
  };
  void collect(int unit);  // takes over the gradients that its parameters have now
  void drop_call(int unit, CallId call);  // gets no backward any more
  void backward_done(int unit, CallId call);
  void end();  // reduces all that is left

 private:
  void reduce_ready(bool all);
  void reduce(int unit);

  const UnitPlan& plan_;
  GradientShards& gradients_;
  WeightStreamer& weights_;
  UpdateQueue& updates_;
  std::vector<std::set<CallId>> waiting_;  // of each unit: calls without a backward yet
  int num_inside_ = 0;                     // graphs of units that have theirs now
  int next_ = 0;                           // unit to be reduced next
};

}  // namespace zero
