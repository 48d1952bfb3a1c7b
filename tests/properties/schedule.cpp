#include "tests/properties/schedule.h"

#include <algorithm>

namespace zero::properties {
namespace {

// A loss that may still get a backward.
struct Open {
  int number = 0;
  bool leaves_buffers = false;  // of some unit, which it may have read
};

class Scheduler {
 public:
  explicit Scheduler(const Case& of)
      : case_(of),
        has_buffers_(count(of.model, Kind::kBatchNorm) + count(of.model, Kind::kTurn) >
                     0),
        has_skip_(count(of.model, Kind::kSkip) > 0),
        has_head_(of.setting("head")),
        is_deterministic_(of.setting("deterministic")),
        num_planned_(is_deterministic_ || has_groups(of)
                         ? of.setting("micro_batches_per_rank")
                         : 1 << 30) {}

  std::vector<Step> run() {
    for (size_t i = 0; i < case_.events.size(); ++i) {
      event_ = static_cast<int>(i);
      add(case_.events[i]);
    }
    return std::move(steps_);
  }

 private:
  void add(const Event& event) {
    Step step{event.what, event.pick, event.flip, {}, false, false, event_};
    // Nor does the engine find a buffer of a skipped call that another place changes.
    if (has_buffers_ && has_skip_ && count(case_.model, Kind::kAgain) > 0)
      step.flip = false;
    switch (event.what) {
      case Do::kForward:
        return add_forward(step);
      case Do::kBackward:
        return add_backward(step, 1);
      case Do::kBackwardOfTwo:
        return add_backward(step, 2);
      case Do::kDrop:
        if (take_open(step, 1)) steps_.push_back(step);
        return;
      case Do::kThrowInForward:
        // There bodies run several times in a forward.
        if (case_.setting("micro_batch") > 0) return;
        [[fallthrough]];
      case Do::kNoGrad:
        steps_.push_back(step);
        if (is_training_) buffers_change();
        return;
      case Do::kTrain:
      case Do::kEval:
        is_training_ = event.what == Do::kTrain;
        steps_.push_back(step);
        return;
      case Do::kForeign:
        if (open_.empty() || case_.setting("x_needs_grad") == 0) return;
        step.losses = {open_[event.pick % open_.size()].number};
        if (event.pick % 3 == 0) {
          step.ends_losses = true;
          open_.erase(open_.begin() +
                      static_cast<std::ptrdiff_t>(event.pick % open_.size()));
        }
        steps_.push_back(step);
        return;
      case Do::kThrowInBackward:
        return add_throw_in_backward(step);
      case Do::kDiscard:
        forget_step();
        steps_.push_back(step);
        return;
      case Do::kStep:
        return add_step(step);
      case Do::kLook:
        if (!has_head_) return;
        step.is_refused = num_passes_ == 0;
        has_looked_ = has_looked_ || !step.is_refused;
        steps_.push_back(step);
        return;
      case Do::kSet:
        if (!has_head_) return;
        step.is_refused = !open_.empty();
        steps_.push_back(step);
        return;
      case Do::kAverage:
        steps_.push_back(step);
        // Plain batch norm refuses a backward after that.
        if (count(case_.model, Kind::kBatchNorm) > 0) {
          for (Open& open : open_) open.leaves_buffers = true;
        }
        buffers_change();
        return;
      case Do::kSave:
        ++num_saved_;
        steps_.push_back(step);
        return;
      case Do::kLoad:
        if (num_saved_ == 0) return;
        for (const Open& open : open_) step.losses.push_back(open.number);
        open_.clear();
        forget_step();
        steps_.push_back(step);
        return;
      case Do::kUseOld:
        if (old_.empty()) return;
        step.losses = {old_[event.pick % old_.size()]};
        step.is_refused = true;
        steps_.push_back(step);
        return;
      case Do::kFreeze:
        if (!has_head_) return;
        step.is_refused = num_passes_ > 0;
        if (!step.is_refused) {
          for (const Open& open : open_) step.losses.push_back(open.number);
          open_.clear();
        }
        steps_.push_back(step);
        return;
      case Do::kCallDirect:
        if (!has_buffers_ && !case_.may_draw) steps_.push_back(step);
        return;
    }
  }

  void add_forward(Step& step) {
    step.losses = {num_losses_++};
    steps_.push_back(step);
    if (is_training_) buffers_change();
    open_.push_back({step.losses[0], !is_training_ || (has_skip_ && step.flip)});
  }

  void add_backward(Step& step, size_t num_losses) {
    if (open_.size() < num_losses) return;
    step.is_refused = has_looked_ || num_passes_ == num_planned_;
    if (step.is_refused) {
      for (size_t i = 0; i < num_losses; ++i) step.losses.push_back(open_[i].number);
    } else {
      take_open(step, num_losses);
      ++num_passes_;
    }
    steps_.push_back(step);
  }

  void add_throw_in_backward(Step& step) {
    if (case_.setting("recompute") == 0 || has_looked_ || num_passes_ == num_planned_)
      return;
    if (!take_open(step, 1)) return;
    steps_.push_back(step);
    forget_step();
  }

  void add_step(Step& step) {
    step.is_refused =
        num_passes_ == 0 || (is_deterministic_ && num_passes_ != num_planned_);
    steps_.push_back(step);
    if (step.is_refused) return;
    for (const Open& open : open_) old_.push_back(open.number);
    open_.clear();
    forget_step();
  }

  bool take_open(Step& step, size_t num_losses) {
    if (open_.size() < num_losses) return false;
    for (size_t i = 0; i < num_losses; ++i) {
      const auto at = static_cast<std::ptrdiff_t>(step.pick % open_.size());
      step.losses.push_back(open_[at].number);
      open_.erase(open_.begin() + at);
    }
    return true;
  }

  // A forward may have read what now changes; backward would not find it again, which
  // the engine refuses where it recomputes. Such losses are let go.
  void buffers_change() {
    if (!has_buffers_) return;
    Step drop{Do::kDrop, 0, false, {}, false, false, event_};
    for (const Open& open : open_) {
      if (open.leaves_buffers) drop.losses.push_back(open.number);
    }
    if (drop.losses.empty()) return;
    std::erase_if(open_, [](const Open& open) { return open.leaves_buffers; });
    steps_.push_back(drop);
  }

  void forget_step() {
    num_passes_ = 0;
    has_looked_ = false;
  }

  const Case& case_;
  const bool has_buffers_, has_skip_;
  const bool has_head_;  // else there may be no parameter to look at
  const bool is_deterministic_;
  const int num_planned_;
  int event_ = 0, num_losses_ = 0, num_passes_ = 0, num_saved_ = 0;
  bool is_training_ = true, has_looked_ = false;
  std::vector<Open> open_;
  std::vector<int> old_;
  std::vector<Step> steps_;
};

}  // namespace

std::vector<Step> make_schedule(const Case& of) { return Scheduler(of).run(); }

}  // namespace zero::properties
