#pragma once
#include <string>
#include <vector>

#include "tests/standin/schedule.h"

namespace zero::testing {

// What each entry of a schedule is certain to come after, from three rules alone: a lane
// does one thing after the other; an entry waits for those that it says; and it was
// queued when the training thread had waited for what it says above.
class Ordering {
 public:
  explicit Ordering(const Schedule& schedule);
  // Is `first` over when `second` begins?
  bool is_before(size_t first, size_t second) const { return before_[second][first]; }
  bool operator==(const Ordering&) const = default;

 private:
  std::vector<std::vector<bool>> before_;  // of each entry: of each entry
};

// Every two entries that nothing orders though one of them writes what the other reads or
// writes, in words. None: whatever runs when, nobody reads what is not there yet, or not
// there any more.
std::vector<std::string> find_races(const Schedule& schedule);

}  // namespace zero::testing
