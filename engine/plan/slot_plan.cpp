#include "engine/plan/slot_plan.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace zero {

int64_t SlotPlan::bytes() const {
  int64_t total = 0;
  for (const Class& of : classes) total += of.slot_bytes * of.num_slots;
  return total;
}

namespace {

// How many of a class may be needed at once, if it has the sizes [least, most].
int64_t num_needed(const std::vector<int64_t>& sizes, int64_t least, int64_t most,
                   int64_t num_at_once, AtOnce which) {
  const auto is_of_class = [&](int64_t size) { return least <= size && size <= most; };
  const int64_t num_users = std::ranges::count_if(sizes, is_of_class);
  if (which == AtOnce::kAny) return std::min(num_users, num_at_once);
  int64_t needed = 0, now = 0;
  for (int64_t i = 0; i < std::ssize(sizes); ++i) {
    now += is_of_class(sizes[i]);
    if (i >= num_at_once) now -= is_of_class(sizes[i - num_at_once]);
    needed = std::max(needed, now);
  }
  return needed;
}

// A slot for each of so many neighbours, which users take in turn.
SlotPlan in_turns(const std::vector<int64_t>& sizes, int num_at_once) {
  SlotPlan plan;
  int next = 0;
  for (const int64_t size : sizes) {
    const int taken = size > 0 ? next++ % num_at_once : -1;
    plan.class_of.push_back(taken);
    if (taken == std::ssize(plan.classes)) plan.classes.push_back({0, 1});
    if (taken < 0) continue;
    int64_t& bytes = plan.classes[taken].slot_bytes;
    bytes = std::max(bytes, size);
  }
  return plan;
}

}  // namespace

// Users of a class are neighbours in the order of sizes: the best classes of the i
// largest sizes end with the sizes from some j on, behind the best classes of the j
// largest.
SlotPlan make_slot_plan(const std::vector<int64_t>& sizes, int num_at_once,
                        AtOnce which) {
  std::vector<int64_t> users = sizes;  // in their order
  std::erase(users, 0);
  std::vector<int64_t> of_size = users;  // each once, the largest first
  std::ranges::sort(of_size, std::greater<>());
  of_size.erase(std::ranges::unique(of_size).begin(), of_size.end());
  const size_t count = of_size.size();
  const auto slots_of = [&](size_t begin, size_t end) {
    return num_needed(users, of_size[end - 1], of_size[begin], num_at_once, which);
  };
  std::vector<int64_t> least_bytes(count + 1, std::numeric_limits<int64_t>::max());
  std::vector<size_t> last_class(count + 1, 0);  // where the last class begins
  least_bytes[0] = 0;
  for (size_t i = 1; i <= count; ++i) {
    for (size_t j = i; j-- > 0;) {
      const int64_t bytes = least_bytes[j] + slots_of(j, i) * of_size[j];
      if (bytes > least_bytes[i]) continue;  // of equal ones that with fewer classes
      least_bytes[i] = bytes;
      last_class[i] = j;
    }
  }

  SlotPlan plan;
  for (size_t end = count; end > 0; end = last_class[end]) {
    const size_t begin = last_class[end];
    plan.classes.push_back({of_size[begin], static_cast<int>(slots_of(begin, end))});
  }
  std::ranges::reverse(plan.classes);
  for (const int64_t size : sizes) {
    // The last that fits.
    const auto num_fitting = std::ranges::count_if(
        plan.classes, [&](const SlotPlan::Class& of) { return of.slot_bytes >= size; });
    plan.class_of.push_back(size > 0 ? static_cast<int>(num_fitting) - 1 : -1);
  }
  if (which == AtOnce::kAny) return plan;
  // Where slots are taken in turn, a user of another size leaves none alone and is
  // gathered more often.
  const SlotPlan turns = in_turns(sizes, num_at_once);
  return 8 * turns.bytes() < 7 * plan.bytes() ? turns : plan;
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
