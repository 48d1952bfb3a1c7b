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
  std::vector<Class> classes;  // the largest first, of what was planned at once
  std::vector<int> class_of;   // of each user; -1: it needs no slot

  int64_t bytes() const;
};

// The classes that take the fewest bytes, so that one large user does not set the size of
// every slot. In each class as many slots as there are users, at most `num_slots`; so
// whoever may hold `num_slots` of one size at once may do so of any sizes. `sizes`: bytes
// of each user; those of 0 need no slot.
SlotPlan make_slot_plan(const std::vector<int64_t>& sizes, int num_slots);

// One ring of both, which have the same users: each needs a slot in one of them at most.
SlotPlan join(SlotPlan one, const SlotPlan& other);

}  // namespace zero
