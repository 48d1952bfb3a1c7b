#pragma once
#include <vector>

#include "tests/properties/case.h"

namespace zero::properties {

// What a run does for one event, and what must come of it.
struct Step {
  Do what = Do::kForward;
  int pick = 0;
  bool flip = false;
  std::vector<int> losses = {};  // numbers of the losses it makes or uses
  bool ends_losses = false;      // a foreign backward that keeps no graph
  bool is_refused = false;       // the engine throws Error(kUsage) and changes nothing
  int event = 0;                 // index in Case::events
};

// A case's events with what they mean in their place: which losses are open, what the
// engine refuses. Events that mean nothing there are left out.
std::vector<Step> make_schedule(const Case& of);

}  // namespace zero::properties
