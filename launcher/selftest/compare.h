#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zero::launcher {

// Whether two things are the same, and what was compared or where they differ.
struct Comparison {
  bool is_same = true;
  std::string text;  // "6 losses and norms, 2 evaluations"
};

// What a run's metrics.jsonl tells of each step and evaluation, in order: "type", "step",
// "loss" with all its digits, "grad_norm". Throws Error(kCheckpoint) when it cannot be
// read.
std::vector<nlohmann::json> numbers_of(const std::string& run);

Comparison compare_numbers(const std::vector<nlohmann::json>& a,
                           const std::vector<nlohmann::json>& b);

// Two runs: those numbers, and every bit of every tensor of their newest checkpoints,
// what the optimizer keeps included. Throws what cannot be read.
Comparison compare_runs(const std::string& a, const std::string& b);

}  // namespace zero::launcher
