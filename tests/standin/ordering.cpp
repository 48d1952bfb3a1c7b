#include "tests/standin/ordering.h"

#include <functional>
#include <map>
#include <optional>

namespace zero::testing {
namespace {

using standin::Access;

bool is_conflict(const Access& a, const Access& b) {
  const auto* from_a = static_cast<const char*>(a.memory);
  const auto* from_b = static_cast<const char*>(b.memory);
  const std::less<> less;  // of any pointers
  return (a.writes || b.writes) && less(from_a, from_b + b.bytes) &&
         less(from_b, from_a + a.bytes);
}

const Access* find_conflict(const Entry& a, const Entry& b) {
  for (const Access& one : a.accesses) {
    for (const Access& other : b.accesses)
      if (is_conflict(one, other)) return &one;
  }
  return nullptr;
}

std::string name_of(const Entry& entry) { return entry.lane + ": " + entry.what; }

}  // namespace

Ordering::Ordering(const Schedule& schedule) {
  const size_t num = schedule.entries.size();
  std::map<std::string, size_t> last;
  for (size_t i = 0; i < num; ++i) {
    std::vector<bool>& before = before_.emplace_back(num);
    const auto follow = [&](size_t other) {
      before[other] = true;
      for (size_t j = 0; j < other; ++j)
        if (before_[other][j]) before[j] = true;
    };
    const Entry& entry = schedule.entries[i];
    for (const std::string& lane : {entry.lane, std::string("training")})
      if (const auto found = last.find(lane); found != last.end()) follow(found->second);
    for (const size_t other : entry.after) follow(other);
    last[entry.lane] = i;
  }
}

std::vector<std::string> find_races(const Schedule& schedule) {
  const Ordering ordering(schedule);
  std::vector<std::string> races;
  for (size_t i = 0; i < schedule.entries.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (ordering.is_before(j, i)) continue;
      const Entry &earlier = schedule.entries[j], &later = schedule.entries[i];
      if (const Access* const access = find_conflict(earlier, later)) {
        races.push_back(name_of(earlier) + " and " + name_of(later) + " share " +
                        (access->name.empty() ? "memory" : access->name));
      }
    }
  }
  return races;
}

}  // namespace zero::testing
