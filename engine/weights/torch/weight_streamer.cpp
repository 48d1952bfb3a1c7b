#include "engine/weights/torch/weight_streamer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/device/torch/compute_type.h"
#include "zero/errors.h"

namespace zero {

WeightStreamer::WeightStreamer(const Workplace& at, const std::vector<at::Tensor>& params,
                               Stream& stream,
                               const std::function<const Event&(int)>& ready,
                               const std::function<void(int)>& wait_until_unread)
    : at_(at),
      plan_(at.plan),
      shards_(at.shards),
      num_prefetch_(at.options.prefetch),
      stream_(stream),
      updated_(ready),
      wait_until_unread_(wait_until_unread),
      compute_(at.device.compute_stream()),
      device_(at.device),
      units_(at.plan.units.size()),
      is_behind_(at.plan.parts.size(), true),
      ring_(at.device, at.comm, stream, "gather ring", at.memory.gather_ring),
      root_(at.device, at.comm, stream, "root weights", at.memory.root_weights),
      exchanges_(at.across_host && at.device.has_own_memory()
                     ? at.device.make_worker("exchanges")
                     : nullptr) {
  // The model is touched last: until here, what fails leaves it as it was.
  for (size_t u = 0; u < units_.size(); ++u) {
    units_[u].source.unit = static_cast<int>(u);
    units_[u].source.name =
        at.plan.units[u].fqn.empty() ? "(root)" : at.plan.units[u].fqn;
    units_[u].source.ready = [=, this]() -> const Event& {
      return arrived(static_cast<int>(u));
    };
  }
  for (size_t p = 0; p < at.plan.parts.size(); ++p) {
    const PlannedPart& part = at.plan.parts[p];
    std::vector<at::Tensor> of_part;
    for (const int param : part.params) of_part.push_back(params[param]);
    parts_.push_back(std::make_unique<FlatParams>(part.layout, std::move(of_part),
                                                  scalar_type(part.dtype),
                                                  tensor_device(at.device.gpu_index())));
    if (part.layout.numel == 0) {  // nothing to gather, nothing to release
      parts_.back()->point_to(nullptr);
      continue;
    }
    UnitWeights& unit = units_[part.unit];
    const int index = static_cast<int>(p);
    unit.parts.push_back({index, parts_.back().get(), place_of(index)});
    if (unit.parts.back().lies == Lies::kInSlot)
      unit.source.parts.push_back(source_of(index));
  }
  find_shards();
}

WeightStreamer::Lies WeightStreamer::place_of(int part) const {
  const PlannedPart& planned = plan_.parts[part];
  if (planned.is_decoded()) return Lies::kInSlot;
  if (at_.memory.is_shared[part]) return Lies::kShared;
  return at_.memory.homes[planned.unit].in_place ? Lies::kInPlace : Lies::kInSlot;
}

GatherSource::Part WeightStreamer::source_of(int index) {
  const PlannedPart& part = plan_.parts[index];
  const DType type = part.gathered_type();
  GatherSource::Part source{nullptr, bytes_of(type, part.layout.group_numel), part.tag};
  if (!part.is_decoded()) return source;
  source.decoded_bytes = full_bytes(part);
  const bool is_near =
      at_.memory.homes[part.unit].weights_on_gpu == device_.has_own_memory();
  source.is_here = at_.memory.is_shared[index] || (plan_.mesh.group == 1 && is_near);
  source.decode = [this, index](const void* from, void* to, Stream& stream) {
    const PlannedPart& kept = plan_.parts[index];
    const auto span = device_.timed(stream, Work::kPart, "decode", kept.tag);
    device_.decode({kept.gathered_type(), kept.dtype, from, to, kept.layout.numel},
                   at_.threads, stream);
  };
  return source;
}

void WeightStreamer::find_shards() {
  for (UnitWeights& unit : units_) {
    auto source = unit.source.parts.begin();
    for (const UnitPart& part : unit.parts) {
      if (part.lies == Lies::kInSlot) source++->shard = weights_here(part.index);
    }
  }
}

// All that this rank has for its group; its own slice is a part of it.
std::byte* WeightStreamer::weights_of_group(int part) const {
  const PlannedPart& planned = plan_.parts[part];
  return static_cast<std::byte*>(shards_[part].weights()) -
         bytes_of(planned.gathered_type(), planned.layout.begin_in_group(at_.rank));
}

// All that can be read without asking other ranks.
std::byte* WeightStreamer::weights_here(int part) const {
  std::byte* const of_all = shards_[part].weights_of_all;
  return of_all ? of_all : weights_of_group(part);
}

// Reached when the unit's weights have their values, those that other groups update too.
// `arrived` of a unit is reached when that holds for what its ranks share.
const Event& WeightStreamer::arrived(int unit) {
  const Event& updated = updated_(unit);
  const bool is_on_gpu = at_.memory.homes[unit].weights_on_gpu;
  Stream& stream = exchanges_ && !is_on_gpu ? *exchanges_ : stream_;
  bool is_first = true;
  for (const int part : plan_.units[unit].parts) {
    const bool is_shared = at_.memory.is_shared[part];
    const bool comes = (at_.across_host || is_shared) && is_behind_[part];
    if (!comes || plan_.parts[part].layout.numel == 0) continue;
    if (std::exchange(is_first, false)) stream.wait(updated);
    if (at_.across_host)
      exchange(part, is_on_gpu ? *at_.across : *at_.across_host, stream);
    if (is_shared)  // nothing moves: the others' slices are there
      at_.comm.all_gather(nullptr, nullptr, 0, plan_.parts[part].tag, stream);
    is_behind_[part] = false;
  }
  if (!is_first) stream.record(units_[unit].arrived);
  return at_.across_host ? units_[unit].arrived : updated;
}

void WeightStreamer::exchange(int part, Collectives& among, Stream& stream) {
  const PlannedPart& planned = plan_.parts[part];
  const auto span = device_.timed(stream, Work::kWeights, "exchange", planned.tag);
  const int64_t bytes = bytes_of(planned.gathered_type(), planned.layout.shard_numel);
  among.all_gather(shards_[part].weights(), weights_of_group(part), bytes, planned.tag,
                   stream);
  exchanged_bytes_ += (among.size() - 1) * bytes;
}

void WeightStreamer::unshard(int index, Direction direction) {
  UnitWeights& unit = units_[index];
  if (!unit.parts.empty() && unit.num_users == 0) bring(index);
  ++unit.num_users;
  try {
    prefetch_after(index, direction);
  } catch (...) {
    reshard(index);
    throw;
  }
}

void WeightStreamer::reshard(int index) {
  UnitWeights& unit = units_[index];
  assert(unit.num_users > 0);
  if (--unit.num_users == 0 && !unit.parts.empty()) take_away(index);
}

void WeightStreamer::bring(int index) {
  UnitWeights& unit = units_[index];
  std::byte* full = nullptr;
  if (unit.has(Lies::kInPlace) || unit.has(Lies::kShared)) {
    const std::string& tag = plan_.parts[unit.parts.front().index].tag;
    const auto span = device_.timed(compute_, Work::kWaiting, "wait for", tag);
    compute_.wait(unit.source.ready());
    compute_.wait(unit.arrived);
  }
  if (unit.has(Lies::kInSlot))
    full = static_cast<std::byte*>(ring_of(index).acquire(unit.source));
  try {
    for (const UnitPart& part : unit.parts) {
      part.flat->point_to(part.lies == Lies::kInSlot ? full : weights_here(part.index));
      full += part.lies == Lies::kInSlot ? part.flat->bytes() : 0;
    }
  } catch (...) {  // a parameter is another tensor
    take_away(index);
    throw;
  }
}

void WeightStreamer::take_away(int index) {
  for (const UnitPart& part : units_[index].parts) part.flat->release();
  if (units_[index].has(Lies::kInSlot)) ring_of(index).release(index);
}

void WeightStreamer::invalidate(bool frozen_too) {
  assert(std::ranges::none_of(units_, &UnitWeights::num_users));
  for (size_t p = 0; p < is_behind_.size(); ++p) {
    if (frozen_too || !plan_.parts[p].is_frozen) is_behind_[p] = true;
  }
  if (frozen_too) shards_.refresh_shared();
  ring_.invalidate();
  root_.invalidate();
  find_shards();
}

uint64_t WeightStreamer::hash_values(const at::Tensor& param) const {
  return device_.hash(param.const_data_ptr(), static_cast<int64_t>(param.nbytes()),
                      compute_);
}

WeightWatch WeightStreamer::watch(int unit, bool compares_values, bool may_restore) {
  if (compares_values || units_[unit].is_changed) wait_until_unread_(unit);
  WeightWatch watch;
  int64_t num_bytes = 0;
  for (const UnitPart& part : units_[unit].parts) {
    num_bytes += part.lies == Lies::kInPlace ? part.flat->bytes() : 0;
    for (const at::Tensor& param : part.flat->params()) {
      watch.versions.push_back(param._version());
      if (compares_values) watch.hashes.push_back(hash_values(param));
    }
  }
  // Where a part is gathered, no change may stay.
  if (!compares_values || num_bytes == 0 ||
      !(may_restore || units_[unit].has(Lies::kInSlot)))
    return watch;
  watch.values = at::empty(
      {num_bytes}, at::device(tensor_device(device_.gpu_index())).dtype(at::kByte));
  auto* values = static_cast<std::byte*>(watch.values.mutable_data_ptr());
  for (const UnitPart& part : units_[unit].parts) {
    if (part.lies != Lies::kInPlace) continue;
    compute_.copy(values, part.flat->memory(), part.flat->bytes());
    values += part.flat->bytes();
  }
  compute_.synchronize();
  return watch;
}

std::string WeightStreamer::first_changed(int unit, const WeightWatch& watch) {
  size_t index = 0;
  for (const auto& [part, flat, lies] : units_[unit].parts) {
    for (size_t i = 0; i < flat->params().size(); ++i, ++index) {
      const at::Tensor& param = flat->params()[i];
      const bool is_same =
          watch.hashes.empty() || hash_values(param) == watch.hashes[index];
      if (!is_same || static_cast<int64_t>(param._version()) != watch.versions[index]) {
        units_[unit].is_changed = true;
        return flat->fqn(i);
      }
    }
  }
  return "";
}

bool WeightStreamer::may_change(int unit) const {
  return at_.plan.mesh.size == 1 &&
         std::ranges::all_of(units_[unit].parts, [&](const UnitPart& part) {
           return part.lies == Lies::kInPlace &&
                  plan_.parts[part.index].gathered_type() == DType::kFp32;
         });
}

bool WeightStreamer::restore(int unit, const WeightWatch& watch) {
  if (units_[unit].has(Lies::kInSlot)) ring_of(unit).forget(unit);
  if (units_[unit].has(Lies::kShared)) shards_.refresh_shared();
  if (!watch.values.defined()) return !units_[unit].has(Lies::kInPlace);
  const auto* values = static_cast<const std::byte*>(watch.values.const_data_ptr());
  for (const UnitPart& part : units_[unit].parts) {
    if (part.lies != Lies::kInPlace) continue;
    compute_.copy(part.flat->memory(), values, part.flat->bytes());
    values += part.flat->bytes();
  }
  compute_.synchronize();
  return true;
}

void WeightStreamer::refuse_change(int unit, const WeightWatch& watch,
                                   const std::string& fqn, const std::string& who_may) {
  const bool is_undone = restore(unit, watch);
  reject(std::string("a forward changes a parameter in place") +
             (is_undone ? "" : ", and it stays changed"),
         fqn,
         "keep it as it is in forward (an embedding's max_norm changes it, too), and "
         "change it between steps with set_full_parameter" +
             who_may);
}

int64_t WeightStreamer::num_gathers() const {
  return ring_.num_gathers() + root_.num_gathers();
}

MeshBytes WeightStreamer::gathered_bytes() const {
  return {ring_.gathered_bytes() + root_.gathered_bytes(), exchanged_bytes_};
}

// The next units in module order, or the previous ones in backward. The root comes first
// in forward order, so units follow it.
void WeightStreamer::prefetch_after(int index, Direction direction) {
  const int step = direction == Direction::kForward ? 1 : -1;
  int left = num_prefetch_;
  for (int next = index + step;
       left > 0 && next > 0 && next < static_cast<int>(units_.size()); next += step) {
    if (units_[next].parts.empty()) continue;
    if (units_[next].has(Lies::kInSlot)) {
      ring_.prefetch(units_[next].source);
    } else {
      if (!at_.across_host) continue;
      units_[next].source.ready();  // what other groups update comes meanwhile
    }
    --left;
  }
}

}  // namespace zero
