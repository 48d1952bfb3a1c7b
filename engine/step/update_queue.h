#pragma once
#include <atomic>
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
// Units with room for it (UnitHome::has_draft) may be updated in a draft before, while
// the backward is at others: as if nothing was clipped, aside from their masters and
// states. begin() takes the drafts that are what it was going to make, and makes the
// others, of which those that have not begun are left out. Where it does not come, they
// stay until somebody asks. Of the weights in 16 bits, which nobody reads between a
// unit's backward and the next forward, there is no second place: whoever throws a draft
// away makes them again of the masters, or of what the draft kept where they are halves
// of masters.
//
// Units whose state lies on a GPU are updated there, in a stream of its own; where a GPU
// keeps the weights alone, they follow their update in the same stream. That stream never
// waits for one who reads a unit's state, who copies it by the GPU, too: while a stream
// waits for the host, a driver may hold up calls of any thread.
// Such an update is queued late, by whoever asks for the unit next, once it was read.
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

  // Until begin(), drafts may be made, with what it is expected to be told.
  void expect(std::vector<int64_t> numbers, double lr, float grad_factor);
  bool may_draft(int unit) const;
  // Queue the draft of a unit whose gradient is there behind these events, and whose
  // weights nobody reads any more.
  void draft(int unit, const std::vector<const Event*>& after);

  // Reached when the unit's masters and states are those of the latest begin(). One who
  // asks this reads them: a draft that writes high halves in place is thrown away.
  const Event& updated(int unit);
  // What is there then is read until `read` is reached, which is recorded by now: the
  // next update or draft that would write there waits.
  void hold_back(int unit, const Event& read);

  // Block until nobody reads what hold_back() told of.
  void wait_until_unread(int unit) const { readings_[unit].done.synchronize(); }

  // Reached when the unit's weights have their values. One who asks this reads them: a
  // draft of the unit is thrown away.
  const Event& ready(int unit);

  // Block until all of it is done. Who asks this looks at masters and states, or changes
  // them: drafts are thrown away.
  void finish();
  // The same of the host's part; what is queued on the compute stream later comes after
  // the GPU's.
  void finish_before_compute();

  // What updates have seen of each ParamDescription since this was made, of this rank's
  // elements, with the latest begin()'s.
  std::vector<Movement> movements();

  // Of the units of the latest step, how many had a draft, and how many it took.
  int num_drafts() const { return num_drafts_; }
  int num_taken() const { return num_taken_; }

 private:
  // What all updates of a step have in common.
  struct Values {
    std::shared_ptr<const std::vector<int64_t>> numbers;
    double lr = 0;
    float grad_factor = 1;
  };

  // In place, or from there to where a draft is.
  enum class To { kShard, kDraft };

  struct Draft {
    std::atomic<bool> is_wanted = true;  // until nobody will take it
    bool is_made = false;                // the stream's
  };

  // Masters and states of a unit that somebody reads.
  struct Reading {
    Event done;
    To place = To::kShard;  // from where take_draft() may move them
  };

  void queue(int unit, const Values& values);
  void queue_on_gpu(int unit, const Values& values);
  void queue_late(int unit);
  void queue_all_late();
  void wait_for_reader(int unit, To place);
  // Is there a parameter of the unit that is trained, and such?
  bool trains_any(int unit, const std::function<bool(int param)>& that) const;
  bool is_drafted(int unit, const Values& values) const;
  void take_draft(int unit);
  void leave_draft(int unit, const Values& values);
  void drop_drafts();
  void drop_draft(int unit);
  void renew_copies(int unit);
  bool has_halves(int unit) const;
  std::vector<int> params_of(int unit) const;
  void wait_for_copy(int unit);
  void announce(int unit);
  void bring_weights(int unit);
  void update(int unit, const std::vector<Update>& updates, const char* doing);
  std::vector<Update> updates_of(int unit, const Values& values, To to);
  void add_part(int part, const Values& values, To to, std::vector<Update>& updates);

  const Workplace at_;
  std::vector<Event> updated_;     // of each unit
  std::vector<Reading> readings_;  // of each unit
  std::vector<Values> late_;       // of units whose update waits for its reader, or none
  Event on_host_, on_gpu_;
  Values expected_;  // of drafts; numbers are null where none may be made
  std::vector<std::shared_ptr<Draft>> drafts_;  // of each unit, since the last step
  // Of each ParamDescription, what the host's updates saw; and what drafts did, which
  // nobody has taken yet.
  std::vector<Movement> movements_, draft_movements_;
  int num_drafts_ = 0, num_taken_ = 0;
  // They go first: they use what is above.
  std::unique_ptr<Stream> gpu_stream_;  // null where the GPU keeps nothing
  std::unique_ptr<HostStream> stream_;
};

}  // namespace zero
