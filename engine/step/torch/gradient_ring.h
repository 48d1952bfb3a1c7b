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

// Where full gradients are laid out in the device's memory as the wire wants them: slots
// of a few sizes, of each size taken in turn.
class GradientRing {
 public:
  struct Slot {
    Slot(Device& device, int64_t bytes)
        : arena(device, "gradient ring", bytes), bytes(bytes) {}

    const DeviceArena arena;
    const int64_t bytes;
    Event idle;  // to be recorded when nobody reads it any more
  };

  GradientRing(const UnitPlan& plan, const SlotPlan& slots, DType wire, Device& device);

  // The part's gradients (in layout order; undefined ones are zeros) in the slot that was
  // taken first. The compute stream waits until it is idle.
  Slot& fill(int part, const std::vector<at::Tensor>& gradients);

 private:
  Slot& next_slot(int part);
  at::Tensor param_in(std::byte* full, const FlatLayout& layout, size_t param) const;
  void clear_padding(std::byte* full, const FlatLayout& layout) const;

  const UnitPlan& plan_;
  const std::vector<int> class_of_;  // of each part
  const DType wire_;
  Device& device_;
  // Of each class: in the order in which they were taken last.
  std::vector<std::list<Slot>> slots_;
};

}  // namespace zero
