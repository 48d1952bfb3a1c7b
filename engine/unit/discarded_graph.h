#pragma once

#include "base/no_copy.h"

namespace zero {

// Lives in a thread while a unit's body runs. Is its graph thrown away, to be made again
// in backward? Then what only backward needs is best made there.
class DiscardedGraph : NoCopy {
 public:
  explicit DiscardedGraph(bool is_discarded);
  ~DiscardedGraph();

  static bool is_here();

 private:
  const bool outer_;
};

}  // namespace zero
