#pragma once
#include <memory>
#include <vector>

#include "engine/weights/workplace.h"
#include "offload/update.h"

namespace zero {

// Update the units one after the other, in the order in which the next forward needs
// them, while it already runs.
//
// begin() is told the whole step's clipping factor, so nothing in it is guessed or late:
// whoever waits for a unit's event reads weights as a step would leave them that does
// nothing else meanwhile. Masters, moments, gradients and copies belong to the queue from
// begin() until finish(), or, of one unit, until its event. The training thread alone
// drives it.
//
// Units whose state lies on a GPU are updated there, in a stream of its own; where a GPU
// keeps the weights alone, they follow their update in the same stream.
class UpdateQueue {
 public:
  explicit UpdateQueue(const Workplace& at);

  // Touch all shards with the threads that will sweep them, before anybody else does.
  void touch();

  // Queue the update of all shards; the one before must be finished. `numbers`: of each
  // ParamDescription, which update of its optimizer's state this is, counted from 1; 0
  // leaves it alone. `grad_factor` is what stored gradient sums are multiplied with
  // (divisor and clipping). Nobody computes with the weights of before any more: the
  // caller has waited for that.
  void begin(std::vector<int64_t> numbers, double lr, float grad_factor);

  // Reached when the latest update of this unit is done.
  const Event& updated(int unit) const { return updated_[unit]; }
  std::vector<const Event*> all_updated() const;  // of each unit

  // Block until all of it is done.
  void finish();
  // The same of the host's part; what is queued on the compute stream later comes after
  // the GPU's.
  void finish_before_compute();

 private:
  // What all updates of a step have in common.
  struct Values {
    std::shared_ptr<const std::vector<int64_t>> numbers;
    double lr = 0;
    float grad_factor = 1;
  };

  void queue(int unit, const Values& values);
  void bring_weights(int unit);
  void update(int unit, const Values& values);
  std::vector<Update> updates_of(int unit, const Values& values) const;
  void add_part(int part, const Values& values, std::vector<Update>& updates) const;

  const Workplace at_;
  const int rank_;              // known while updates end after the ranks have parted
  std::vector<Event> updated_;  // of each unit
  Event on_host_, on_gpu_;
  // They go first: they use what is above.
  std::unique_ptr<Stream> gpu_stream_;  // null where the GPU keeps nothing
  std::unique_ptr<HostStream> stream_;
};

}  // namespace zero
