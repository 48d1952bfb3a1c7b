#pragma once
#include <string>
#include <vector>

#include "engine/watch/trace.h"
#include "tests/standin/recording.h"

namespace zero::testing {

// One piece of work of a lane, which runs behind the lane's one before.
struct Entry {
  std::string lane;
  std::string what;                       // "forward blocks.1"
  std::vector<standin::Access> accesses;  // none: it only waits
  std::vector<size_t> after;              // entries of other lanes that it waits for
};

// What a recording says, in the order in which it was queued: each entry behind those of
// the lane "training" above it.
struct Schedule {
  std::vector<Entry> entries;
  std::vector<size_t> marks;  // how many entries there were at each
};

// Work of the same name that is queued in one go is one entry. Names come from the spans
// of a trace that was recorded meanwhile.
Schedule make_schedule(const standin::Recording& recording,
                       const std::vector<Trace::Lane>& trace);

// The entries between two marks, one a line, numbered from 1; "3'" is number 3 of as many
// entries before. Memory without a name is left out.
std::string text_of(const Schedule& schedule, size_t first_mark);

}  // namespace zero::testing
