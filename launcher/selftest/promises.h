#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/settings/settings.h"

namespace zero::launcher {

class Lab;

// Whether two things are the same, and what was compared or where they differ.
struct Comparison {
  bool is_same = true;
  std::string text;  // "6 losses and norms, 2 evaluations"
};

// What a run's metrics.jsonl tells of each step and evaluation, in order: "type", "step",
// "loss" with all its digits, "grad_norm". Throws Error(kCheckpoint) when it cannot be
// read.
std::vector<nlohmann::json> numbers_of(const std::string& run);

// Whether all masters moved that had a gradient, as its metrics.jsonl tells. Throws as
// numbers_of() does.
Comparison look_at_movement(const std::string& run);

// Whether of two checkpoints this parameter alone is the same.
Comparison compare_frozen(const std::string& folder_a, const std::string& folder_b,
                          const std::string& fqn);

Comparison compare_numbers(const std::vector<nlohmann::json>& a,
                           const std::vector<nlohmann::json>& b);

// Two runs: those numbers, and every bit of every tensor of their newest checkpoints,
// what the optimizer keeps included. Throws what cannot be read.
Comparison compare_runs(const std::string& a, const std::string& b);

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
