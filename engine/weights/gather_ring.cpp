#include "engine/weights/gather_ring.h"

#include <algorithm>
#include <cassert>

#include "zero/errors.h"

namespace zero {

GatherRing::GatherRing(Device& device, Collectives& comm, Stream& stream,
                       const std::string& name, const SlotPlan& plan)
    : device_(device),
      comm_(comm),
      stream_(stream),
      class_of_(plan.class_of),
      gathered_(plan.class_of.size()) {
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    for (int i = 0; i < plan.classes[c].num_slots; ++i) {
      Slot& slot = slots_.emplace_back();
      slot.of_class = static_cast<int>(c);
      slot.bytes = plan.classes[c].slot_bytes;
      slot.memory = device_.allocate(name, slot.bytes);
    }
  }
}

GatherRing::~GatherRing() {
  drain(device_.compute_stream());
  for (Slot& slot : slots_) device_.free(slot.memory);
}

void GatherRing::prefetch(const GatherSource& source) {
  Slot* slot = find(source.unit);
  if (slot) {  // for which it may not be dropped
    slot->last_use = ++clock_;
    return;
  }
  slot = oldest_free(class_of_[source.unit], /*may_drop_awaited=*/false);
  if (!slot) return;
  gather(*slot, source);
  slot->is_awaited = true;
}

void* GatherRing::acquire(const GatherSource& source) {
  Slot* slot = find(source.unit);
  if (!slot) {
    slot = oldest_free(class_of_[source.unit], /*may_drop_awaited=*/true);
    if (!slot)
      reject("more units are nested than the plan knows", source.parts.front().tag,
             "call a zero::Unit only from the forward of the module that holds it");
    gather(*slot, source);
  }
  slot->is_awaited = false;
  slot->last_use = ++clock_;
  const auto span = device_.timed(device_.compute_stream(), Work::kWaiting, "wait for",
                                  source.parts.front().tag);
  device_.compute_stream().wait(gathered_[source.unit]);
  ++slot->num_users;
  return slot->memory;
}

void GatherRing::release(int unit) noexcept {
  Slot* slot = find(unit);
  assert(slot && slot->num_users > 0);  // releasing twice would free a neighbour's slot
  if (--slot->num_users > 0) return;
  try {
    device_.compute_stream().record(slot->idle);
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (slot->is_stale) slot->unit = -1;
  slot->is_stale = false;
}

void GatherRing::forget(int unit) { find(unit)->is_stale = true; }

void GatherRing::invalidate() {
  for (Slot& slot : slots_) {
    assert(slot.num_users == 0);
    slot.unit = -1;
    slot.is_awaited = false;
  }
}

GatherRing::Slot* GatherRing::find(int unit) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& s) { return s.unit == unit; });
  return slot == slots_.end() ? nullptr : &*slot;
}

GatherRing::Slot* GatherRing::oldest_free(int of_class, bool may_drop_awaited) {
  Slot* oldest = nullptr;
  for (const bool awaited : {false, true}) {
    if (awaited && !may_drop_awaited) break;
    for (Slot& slot : slots_) {
      if (slot.of_class != of_class) continue;
      if (slot.num_users > 0 || slot.is_awaited != awaited) continue;
      if (!oldest || slot.last_use < oldest->last_use) oldest = &slot;
    }
    if (oldest) break;
  }
  return oldest;
}

void GatherRing::gather(Slot& slot, const GatherSource& source) {
  if (failure_) std::rethrow_exception(failure_);
  slot.unit = -1;  // until all is queued: it may throw
  slot.last_use = ++clock_;
  stream_.wait(slot.idle);
  stream_.wait(source.ready());
  device_.poison(slot.memory, slot.bytes, stream_);
  auto* const begin = static_cast<std::byte*>(slot.memory);
  [[maybe_unused]] const std::byte* const end = gather_parts(source, begin);
  assert(end <= begin + slot.bytes);
  stream_.record(gathered_[source.unit]);
  slot.unit = source.unit;
  ++num_gathers_;
}

// In one exchange, and then each is decoded where it has arrived.
std::byte* GatherRing::gather_parts(const GatherSource& source, std::byte* full) {
  const bool is_one = source.parts.size() == 1;
  const std::string& tag = is_one ? source.parts.front().tag : source.name;
  const auto span = device_.timed(stream_, Work::kWeights, "gather", tag);
  std::vector<GatheredArray> arrays;
  std::vector<std::function<void()>> decodes;
  for (const GatherSource::Part& part : source.parts) {
    const int64_t bytes = part.shard_bytes * comm_.size();
    std::byte* const end = full + (part.decode ? part.decoded_bytes : bytes);
    const void* const whole = part.is_here ? part.shard : end - bytes;
    if (!part.is_here) {
      arrays.push_back({part.shard, end - bytes, part.shard_bytes});
      gathered_bytes_ += bytes - part.shard_bytes;
    }
    if (part.decode)
      decodes.push_back([=, &part, this] { part.decode(whole, full, stream_); });
    full = end;
  }
  if (!arrays.empty()) comm_.all_gather(arrays, tag, stream_);
  for (const auto& decode : decodes) decode();
  return full;
}

}  // namespace zero
