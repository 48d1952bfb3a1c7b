#pragma once
#include <functional>
#include <string>
#include <vector>

#include "launcher/selftest/compare.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

class Lab;

struct Promise {
  std::string text;
  // Throws when a run fails.
  std::function<Comparison()> try_it;
};

// In the order in which they are to be tried: later ones need the runs of earlier ones.
// `settings`, of the lab's runs, and the lab must outlive them.
std::vector<Promise> make_promises(const Settings& settings, const Lab& lab);

// What `eval` printed against the run's own evaluation of its last step.
Comparison compare_evaluation(const std::string& printed,
                              const std::vector<nlohmann::json>& numbers);

}  // namespace zero::launcher
