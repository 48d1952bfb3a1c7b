#include "engine/plan/slot_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

namespace zero {

int64_t SlotPlan::bytes() const {
  int64_t total = 0;
  for (const Class& of : classes) total += of.slot_bytes * of.num_slots;
  return total;
}

// Users of a class are neighbours in the order of sizes: the best classes of the i
// largest sizes end with the sizes from some j on, behind the best classes of the j
// largest.
SlotPlan make_slot_plan(const std::vector<int64_t>& sizes, int num_slots) {
  // Of each size, the largest first.
  std::map<int64_t, int64_t, std::greater<>> num_users;
  for (const int64_t size : sizes) {
    if (size > 0) ++num_users[size];
  }
  const std::vector<std::pair<int64_t, int64_t>> of_size(num_users.begin(),
                                                         num_users.end());
  const size_t count = of_size.size();
  std::vector<int64_t> least_bytes(count + 1, std::numeric_limits<int64_t>::max());
  std::vector<size_t> last_class(count + 1, 0);  // where the last class begins
  least_bytes[0] = 0;
  for (size_t i = 1; i <= count; ++i) {
    int64_t users = 0;
    for (size_t j = i; j-- > 0;) {
      users += of_size[j].second;
      const int64_t bytes =
          least_bytes[j] + std::min<int64_t>(users, num_slots) * of_size[j].first;
      if (bytes > least_bytes[i]) continue;  // of equal ones that with fewer classes
      least_bytes[i] = bytes;
      last_class[i] = j;
    }
  }

  SlotPlan plan;
  for (size_t end = count; end > 0; end = last_class[end]) {
    int64_t users = 0;
    for (size_t i = last_class[end]; i < end; ++i) users += of_size[i].second;
    plan.classes.push_back({of_size[last_class[end]].first,
                            static_cast<int>(std::min<int64_t>(users, num_slots))});
  }
  std::ranges::reverse(plan.classes);
  for (const int64_t size : sizes) {
    // The last that fits.
    const auto num_fitting = std::ranges::count_if(
        plan.classes, [&](const SlotPlan::Class& of) { return of.slot_bytes >= size; });
    plan.class_of.push_back(size > 0 ? static_cast<int>(num_fitting) - 1 : -1);
  }
  return plan;
}

SlotPlan join(SlotPlan one, const SlotPlan& other) {
  const int num_before = static_cast<int>(one.classes.size());
  one.classes.insert(one.classes.end(), other.classes.begin(), other.classes.end());
  for (size_t user = 0; user < one.class_of.size(); ++user) {
    if (other.class_of[user] >= 0) one.class_of[user] = num_before + other.class_of[user];
  }
  return one;
}

}  // namespace zero
