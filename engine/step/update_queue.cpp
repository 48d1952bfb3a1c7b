#include "engine/step/update_queue.h"

#include <algorithm>
#include <utility>

#include "engine/device/host_device.h"
#include "engine/step/shard_kernels.h"
#include "engine/watch/activity.h"

namespace zero {

UpdateQueue::UpdateQueue(const Workplace& at)
    : at_(at),
      updated_(at.plan.units.size()),
      readings_(at.plan.units.size()),
      late_(at.plan.units.size()),
      drafts_(at.plan.units.size()),
      movements_(at.plan.rules.size()),
      draft_movements_(at.plan.rules.size()),
      gpu_stream_(at.memory.has_state_on_gpu() || at.memory.has_weights_on_gpu()
                      ? at.device.make_stream("device updates")
                      : nullptr),
      stream_(at.device.make_worker("updates")) {}

void UpdateQueue::touch() {
  const Values all{
      std::make_shared<std::vector<int64_t>>(at_.plan.rules.size(), /*number=*/1)};
  for (size_t u = 0; u < at_.plan.units.size(); ++u) {
    const UnitHome& home = at_.memory.homes[u];
    if (!home.state_on_gpu)
      zero::touch(
          updates_of(static_cast<int>(u), all, home.has_draft ? To::kDraft : To::kShard),
          at_.threads);
  }
}

void UpdateQueue::begin(std::vector<int64_t> numbers, double lr, float grad_factor) {
  const Values values{std::make_shared<std::vector<int64_t>>(std::move(numbers)), lr,
                      grad_factor};
  num_drafts_ = static_cast<int>(
      std::ranges::count_if(drafts_, [](const auto& draft) { return draft != nullptr; }));
  num_taken_ = 0;
  stream_->enqueue([] { delay_point("adam"); });
  for (int u = 0; u < std::ssize(updated_); ++u) {
    const bool is_taken = is_drafted(u, values);
    if (drafts_[u] && !is_taken) leave_draft(u, values);
    is_taken ? take_draft(u) : queue(u, values);
  }
  drafts_.assign(drafts_.size(), nullptr);
  expected_ = {};
  if (gpu_stream_) gpu_stream_->record(on_gpu_);
  if (!at_.options.overlap_updates) finish();
}

void UpdateQueue::queue(int unit, const Values& values) {
  const std::string& fqn = at_.plan.units[unit].fqn;
  if (at_.memory.homes[unit].state_on_gpu) {
    if (!readings_[unit].done.query())
      late_[unit] = values;
    else
      queue_on_gpu(unit, values);
    return;
  }
  wait_for_copy(unit);
  wait_for_reader(unit, To::kShard);
  {
    const auto span = at_.device.timed(*stream_, Work::kOptimizer, "update", fqn);
    stream_->enqueue([=, this, updates = updates_of(unit, values, To::kShard)] {
      update(unit, updates, "update ");
    });
  }
  announce(unit);
}

void UpdateQueue::queue_on_gpu(int unit, const Values& values) {
  const auto span = at_.device.timed(*gpu_stream_, Work::kOptimizer, "update",
                                     at_.plan.units[unit].fqn);
  at_.kernels->update(updates_of(unit, values, To::kShard), *gpu_stream_);
  gpu_stream_->record(updated_[unit]);
}

void UpdateQueue::queue_late(int unit) {
  if (!late_[unit].numbers) return;
  {
    const auto span = at_.device.timed(*gpu_stream_, Work::kSaves, "wait for save",
                                       at_.plan.units[unit].fqn);
    readings_[unit].done.synchronize();
  }
  queue_on_gpu(unit, std::exchange(late_[unit], {}));
  gpu_stream_->record(on_gpu_);
}

void UpdateQueue::queue_all_late() {
  for (int u = 0; u < std::ssize(late_); ++u) queue_late(u);
}

const Event& UpdateQueue::updated(int unit) {
  queue_late(unit);
  if (drafts_[unit] && has_halves(unit)) drop_draft(unit);
  return updated_[unit];
}

void UpdateQueue::hold_back(int unit, const Event& read) {
  readings_[unit].done.renew(read.latest());
  readings_[unit].place = To::kShard;
}

// Of a save that takes longer than a step: it is told how long updates waited.
void UpdateQueue::wait_for_reader(int unit, To place) {
  const Reading& reading = readings_[unit];
  if ((reading.place != place && !has_halves(unit)) || reading.done.query()) return;
  const auto span =
      at_.device.timed(*stream_, Work::kSaves, "wait for save", at_.plan.units[unit].fqn);
  stream_->wait(reading.done);
}

// Until what a GPU keeps of the weights of before has been read.
void UpdateQueue::wait_for_copy(int unit) {
  if (at_.memory.homes[unit].weights_on_gpu) stream_->wait(updated_[unit]);
}

// What is queued by now is the unit's update.
void UpdateQueue::announce(int unit) {
  if (at_.memory.homes[unit].weights_on_gpu) return bring_weights(unit);
  stream_->record(updated_[unit]);
}

void UpdateQueue::expect(std::vector<int64_t> numbers, double lr, float grad_factor) {
  expected_ = {std::make_shared<std::vector<int64_t>>(std::move(numbers)), lr,
               grad_factor};
}

// A draft that is taken stands for all of the unit: none of it may be left alone.
bool UpdateQueue::may_draft(int unit) const {
  return expected_.numbers && at_.memory.homes[unit].has_draft &&
         !trains_any(unit, [&](int param) { return (*expected_.numbers)[param] == 0; });
}

bool UpdateQueue::trains_any(int unit, const std::function<bool(int param)>& that) const {
  return std::ranges::any_of(at_.plan.units[unit].parts, [&](int part) {
    const PlannedPart& planned = at_.plan.parts[part];
    return !planned.is_frozen && std::ranges::any_of(planned.params, that);
  });
}

void UpdateQueue::draft(int unit, const std::vector<const Event*>& after) {
  for (const Event* event : after) stream_->wait(*event);
  wait_for_copy(unit);
  wait_for_reader(unit, To::kDraft);
  const std::string& fqn = at_.plan.units[unit].fqn;
  const auto span = at_.device.timed(*stream_, Work::kOptimizer, "draft", fqn);
  const auto draft = drafts_[unit] = std::make_shared<Draft>();
  stream_->enqueue([=, this, updates = updates_of(unit, expected_, To::kDraft)] {
    if (!draft->is_wanted) return;
    for (const int param : params_of(unit)) draft_movements_[param] = {};
    update(unit, updates, "draft ");
    draft->is_made = true;
  });
}

// Is its draft what the step was going to make?
bool UpdateQueue::is_drafted(int unit, const Values& values) const {
  return drafts_[unit] && values.lr == expected_.lr &&
         values.grad_factor == expected_.grad_factor && !trains_any(unit, [&](int param) {
           return (*values.numbers)[param] != (*expected_.numbers)[param];
         });
}

void UpdateQueue::take_draft(int unit) {
  for (const int part : at_.plan.units[unit].parts) {
    if (!at_.plan.parts[part].is_frozen) at_.shards[part].take_draft();
  }
  To& place = readings_[unit].place;
  place = place == To::kShard ? To::kDraft : To::kShard;
  stream_->enqueue([this, unit] {
    for (const int param : params_of(unit)) {
      movements_[param].had_gradient |= draft_movements_[param].had_gradient;
      movements_[param].moved |= draft_movements_[param].moved;
    }
  });
  ++num_taken_;
  announce(unit);
}

// Its update in place comes next. That needs masters as they were, and writes the rest,
// but for parameters that it leaves alone.
void UpdateQueue::leave_draft(int unit, const Values& values) {
  drafts_[unit]->is_wanted = false;
  const auto is_left = [&](int param) { return (*values.numbers)[param] == 0; };
  if (has_halves(unit) || trains_any(unit, is_left)) renew_copies(unit);
}

// Masters and states are as they were, and so are the weights in 16 bits.
void UpdateQueue::drop_draft(int unit) {
  drafts_[unit]->is_wanted = false;
  renew_copies(unit);
  drafts_[unit].reset();
  stream_->record(updated_[unit]);
}

void UpdateQueue::renew_copies(int unit) {
  stream_->enqueue([this, unit, draft = drafts_[unit]] {
    if (!draft->is_made) return;
    for (const int p : at_.plan.units[unit].parts) {
      const PlannedPart& part = at_.plan.parts[p];
      if (!part.is_frozen && at_.shards[p].copy)
        at_.shards[p].renew_copy(part.dtype, part.layout.shard_numel, at_.threads);
    }
  });
}

// Are there masters whose high halves are its weights?
bool UpdateQueue::has_halves(int unit) const {
  return std::ranges::any_of(at_.plan.units[unit].parts, [&](int part) {
    return at_.shards[part].master_low != nullptr;
  });
}

void UpdateQueue::drop_drafts() {
  for (int u = 0; u < std::ssize(drafts_); ++u) {
    if (drafts_[u]) drop_draft(u);
  }
  expected_ = {};
}

const Event& UpdateQueue::ready(int unit) {
  queue_late(unit);
  if (drafts_[unit]) drop_draft(unit);
  return updated_[unit];
}

// Behind their update, to where the GPU keeps them.
void UpdateQueue::bring_weights(int unit) {
  stream_->record(on_host_);
  gpu_stream_->wait(on_host_);
  const std::string& fqn = at_.plan.units[unit].fqn;
  const auto span = at_.device.timed(*gpu_stream_, Work::kWeights, "bring", fqn);
  for (const int p : at_.plan.units[unit].parts) {
    const PlannedPart& part = at_.plan.parts[p];
    const PartShard& shard = at_.shards[p];
    if (!part.is_frozen)
      gpu_stream_->copy(shard.weights_on_gpu, shard.own_weights(),
                        part.layout.shard_numel * size_of(part.dtype));
  }
  gpu_stream_->record(updated_[unit]);
}

void UpdateQueue::finish() {
  drop_drafts();
  queue_all_late();
  stream_->synchronize();
  if (gpu_stream_) gpu_stream_->synchronize();
}

void UpdateQueue::finish_before_compute() {
  drop_drafts();
  queue_all_late();
  stream_->synchronize();
  at_.device.compute_stream().wait(on_gpu_);
}

void UpdateQueue::update(int unit, const std::vector<Update>& updates,
                         const char* doing) {
  const std::string& fqn = at_.plan.units[unit].fqn;
  const Activity::Stretch stretch(doing + (fqn.empty() ? "(root)" : fqn));
  delay_point("update");
  zero::update(updates, at_.threads);
}

std::vector<int> UpdateQueue::params_of(int unit) const {
  std::vector<int> params;
  for (const int part : at_.plan.units[unit].parts) {
    const std::vector<int>& of_part = at_.plan.parts[part].params;
    params.insert(params.end(), of_part.begin(), of_part.end());
  }
  return params;
}

std::vector<Movement> UpdateQueue::movements() {
  finish();
  std::vector<Movement> all = movements_;
  if (at_.memory.num_gpu_movements == 0) return all;
  const std::vector<Movement> on_gpu = at_.kernels->read_movements(*gpu_stream_);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].had_gradient |= on_gpu[i].had_gradient;
    all[i].moved |= on_gpu[i].moved;
  }
  return all;
}

std::vector<Update> UpdateQueue::updates_of(int unit, const Values& values, To to) {
  std::vector<Update> updates;
  for (const int part : at_.plan.units[unit].parts) {
    if (!at_.plan.parts[part].is_frozen) add_part(part, values, to, updates);
  }
  return updates;
}

// Each parameter has its own learning rate and weight decay; padding is left alone.
void UpdateQueue::add_part(int index, const Values& values, To to,
                           std::vector<Update>& updates) {
  const PlannedPart& part = at_.plan.parts[index];
  const PartShard& shard = at_.shards[index];
  const bool is_fp16 = part.dtype == DType::kFp16;
  const bool is_draft = to == To::kDraft;
  const UpdatedValues& written = is_draft ? shard.draft : shard;
  UpdatePiece whole{.grad = shard.grad,
                    .grad_bf16 = shard.grad_bf16,
                    .master = written.master,
                    .master_low = written.master_low,
                    .state = {written.state[0], written.state[1]},
                    .state_bf16 = {written.state_bf16[0], written.state_bf16[1]},
                    .old = is_draft ? UpdatedValues(shard) : UpdatedValues(),
                    .old_high = is_draft ? shard.old_high : nullptr,
                    .copy_bf16 = is_fp16 ? nullptr : shard.copy,
                    .copy_fp16 = is_fp16 ? shard.copy : nullptr,
                    .numel = part.layout.shard_numel};
  for (const ParamPiece& piece : pieces_of(part.layout, at_.rank)) {
    const int param = part.params[piece.param];
    const int64_t number = (*values.numbers)[param];
    if (number == 0) continue;
    const ParamRule& rule = at_.plan.rules[param];
    OptimizerOptions optimizer = at_.options.optimizer;
    optimizer.weight_decay = rule.weight_decay;
    whole.movement = at_.memory.homes[part.unit].state_on_gpu
                         ? at_.kernels->movement(param)
                     : to == To::kDraft ? &draft_movements_[param]
                                        : &movements_[param];
    updates.push_back(
        {part_of(whole, piece.shard_begin, piece.shard_begin + piece.numel),
         make_rule(optimizer, values.lr * rule.lr_scale, number, values.grad_factor)});
  }
}

}  // namespace zero
