#pragma once
#include <cstdint>
#include <list>
#include <vector>

#include "engine/device/device_arena.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"

namespace at {
class Tensor;
}

namespace zero {

// Where full gradients are laid out in the device's memory: slots of a few sizes, of each
// size taken in turn.
class GradientRing {
 public:
  struct Slot {
    Slot(Device& device, int64_t bytes)
        : arena(device, "gradient ring", bytes), bytes(bytes) {}

    const DeviceArena arena;
    const int64_t bytes;
    DType type = DType::kFp32;  // of what it was filled with
    Event idle;                 // to be recorded when nobody reads it any more
  };

  GradientRing(const UnitPlan& plan, const SlotPlan& slots, Device& device);

  // The part's gradients (in layout order; undefined ones are zeros) as `type`, kFp32 or
  // kBf16 and no larger than the wire's, in the next slot.
  Slot& fill(int part, const std::vector<at::Tensor>& gradients, DType type);
  // The slot that was taken first. The compute stream waits until it is idle.
  Slot& next_slot(int part);

 private:
  at::Tensor param_in(const Slot& slot, const FlatLayout& layout, size_t param) const;
  void clear_padding(const Slot& slot, const FlatLayout& layout) const;

  const UnitPlan& plan_;
  const std::vector<int> class_of_;  // of each part
  Device& device_;
  // Of each class: in the order in which they were taken last.
  std::vector<std::list<Slot>> slots_;
};

}  // namespace zero
