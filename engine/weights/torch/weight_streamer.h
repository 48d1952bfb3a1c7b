#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/weights/gather_ring.h"
#include "engine/weights/torch/flat_params.h"
#include "engine/weights/workplace.h"

namespace zero {

// What gathered weights were like before somebody's forward ran.
struct WeightWatch {
  std::vector<int64_t> versions;  // of all parameters, part by part
  std::vector<uint64_t> hashes;   // of their values, if these are compared
  at::Tensor values;  // bytes, part by part, if restore() is to write them back
};

// Give units their full weights and take them away again, gathering the next unit while
// one runs.
//
// One rank alone computes on its own shards in place where they lie in the memory that it
// computes in, and ranks of one host on weights that they share and no step changes: of
// those nothing is gathered and nothing is copied. Not thread-safe: the training thread
// alone drives it.
class WeightStreamer {
 public:
  enum class Direction { kForward, kBackward };

  // The scope in which a unit's full weights are there.
  class Unsharded : NoCopy {
   public:
    Unsharded(WeightStreamer& weights, int unit, Direction direction)
        : weights_(weights), unit_(unit) {
      weights_.unshard(unit_, direction);
    }
    ~Unsharded() { weights_.reshard(unit_); }

   private:
    WeightStreamer& weights_;
    const int unit_;
  };

  // `params`: of each ParamDescription of the plan; they are changed. `ready`: asked for
  // a unit whose shards are about to be read, reached when they have their values.
  // `wait_until_unread`: of one whose shards a forward may change.
  WeightStreamer(
      const Workplace& at, const std::vector<at::Tensor>& params, Stream& stream,
      const std::function<const Event&(int unit)>& ready,
      const std::function<void(int unit)>& wait_until_unread = [](int) {});

  // Nested calls are counted: the unit stays until the last reshard().
  void unshard(int unit, Direction direction);
  void reshard(int unit);
  // The shards changed, of frozen parts too or of the others alone: gathered weights are
  // stale. No unit may be unsharded.
  void invalidate(bool frozen_too);

  // Of an unsharded unit: what its parameters are now; the FQN of the first that is not
  // any more ("" if none); and the refusal of that, which undoes it, or forgets what was
  // gathered. Values in place are kept by watch() only where it compares them and
  // `may_restore`, as they take memory; else they stay changed. Where values are
  // compared, which is in a unit's first forward, and in those behind a change in place,
  // no save reads the unit any more.
  WeightWatch watch(int unit, bool compares_values, bool may_restore);
  std::string first_changed(int unit, const WeightWatch& watch);
  [[noreturn]] void refuse_change(int unit, const WeightWatch& watch,
                                  const std::string& fqn,
                                  const std::string& who_may = "");

  // Reached when the latest gather of this unit has read its shards.
  const Event& gathered(int unit) { return ring_of(unit).gathered(unit); }
  bool is_used_in_place(int unit) const {
    return units_[unit].has(Lies::kInPlace) && units_[unit].num_users > 0;
  }
  // May a change by a forward stay? Where the masters themselves are computed with, and
  // there are no others.
  bool may_change(int unit) const;
  int64_t num_gathers() const;
  MeshBytes gathered_bytes() const;
  // For a trace: what a unit does on the compute stream until the end of the scope.
  StreamClock::Span drawn(std::string_view what, std::string_view whom) {
    return device_.timed(compute_, Work::kPart, what, whom);
  }
  const std::vector<at::Tensor>& params_of(int part) const {
    return parts_[part]->params();
  }

 private:
  // Where the full weights of a part are: gathered, or made of what is gathered; where
  // this rank alone has them; or where the ranks of its group have them together.
  enum class Lies { kInSlot, kInPlace, kShared };
  struct UnitPart {
    int index = 0;
    FlatParams* flat = nullptr;
    Lies lies = Lies::kInSlot;
  };
  struct UnitWeights {
    std::vector<UnitPart> parts;
    GatherSource source;  // of those in a slot
    int num_users = 0;
    bool is_changed = false;  // by a forward
    Event arrived;

    bool has(Lies where) const {
      return std::ranges::any_of(
          parts, [where](const UnitPart& part) { return part.lies == where; });
    }
  };

  bool restore(int unit, const WeightWatch& watch);  // false: values in place stay
  Lies place_of(int part) const;
  GatherSource::Part source_of(int part);
  void find_shards();
  std::byte* weights_of_group(int part) const;
  std::byte* weights_here(int part) const;
  const Event& arrived(int unit);
  void exchange(int part, Collectives& among, Stream& stream);
  uint64_t hash_values(const at::Tensor& param) const;
  void bring(int unit);
  void take_away(int unit);
  void prefetch_after(int unit, Direction direction);
  GatherRing& ring_of(int unit) { return unit == 0 ? root_ : ring_; }

  const Workplace at_;
  const UnitPlan& plan_;
  ShardStore& shards_;
  const int num_prefetch_;
  Stream& stream_;  // where ranks talk
  const std::function<const Event&(int unit)> updated_;
  const std::function<void(int unit)> wait_until_unread_;
  Stream& compute_;
  Device& device_;
  std::vector<std::unique_ptr<FlatParams>> parts_;
  std::vector<UnitWeights> units_;
  // Of each part: have others changed their slices since this rank got them last, or was
  // told that all are there?
  std::vector<bool> is_behind_;
  int64_t exchanged_bytes_ = 0;
  GatherRing ring_;  // of all units but the root
  GatherRing root_;  // one slot
  // It goes first. Where a host's memory is exchanged for a GPU; or else null.
  std::unique_ptr<HostStream> exchanges_;
};

}  // namespace zero
