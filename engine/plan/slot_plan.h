#pragma once
#include <cstdint>
#include <vector>

namespace zero {

// The slots of a ring whose users differ in size: users of one class share its slots.
struct SlotPlan {
  struct Class {
    int64_t slot_bytes = 0;
    int num_slots = 0;
  };
  std::vector<Class> classes;
  std::vector<int> class_of;  // of each user; -1: it needs no slot

  int64_t bytes() const;
};

// Which users may hold slots at once: so many of any, or neighbours in their order.
enum class AtOnce { kAny, kNeighbours };

// The classes that take the fewest bytes, so that one large user does not set the size of
// every slot. Each has as many slots as `num_at_once` users may need there. `sizes`:
// bytes of each user; those of 0 need no slot.
SlotPlan make_slot_plan(const std::vector<int64_t>& sizes, int num_at_once,
                        AtOnce which = AtOnce::kAny);

// One ring of both, which have the same users: each needs a slot in one of them at most.
SlotPlan join(SlotPlan one, const SlotPlan& other);

}  // namespace zero
