#pragma once
#include <vector>

#include "engine/step/gradient_shards.h"
#include "engine/weight_streamer.h"

namespace zero {

// Reduce the gradients of one backward pass as soon as the plan's order allows.
//
// Collectives must come in the same order on every rank, so units are reduced from the
// last to the first, the root at the end, whatever the order in which their backwards
// finish. A unit is ready when every forward call that waits for a backward has had it;
// one that was not called contributes zeros at its turn.
class BackwardPass {
 public:
  BackwardPass(int num_units, GradientShards& gradients, WeightStreamer& weights);

  void forward_called(int unit);  // with gradients wanted
  void call_dropped(int unit);    // its graph went away without a backward
  void chunk_done(int unit);      // a micro-batch of a unit's backward: its gradients are
                                  // summed in fp32
  void backward_done(int unit);

  void begin();
  void end();     // reduces all that is left
  void forget();  // calls of earlier steps never get their backward

 private:
  void reduce_ready(bool all);

  GradientShards& gradients_;
  WeightStreamer& weights_;
  std::vector<int> num_waiting_;  // forward calls without a backward yet
  int next_ = 0;                  // unit to be reduced next
};

}  // namespace zero
