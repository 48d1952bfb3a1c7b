#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/run_plan.h"
#include "launcher/settings/setting_table.h"

namespace zero::launcher {

using Planner = std::function<RunPlan(const Wish&)>;

// A wish that fits, and how it differs from the one that did not.
struct Fit {
  Wish wish;
  RunPlan plan;
  std::vector<ChangedSetting> changes;
  int num_nodes = 1;  // like the one that was asked about; more than 1: too small alone
};

// The settings nearest to `wish` that fit: one change where one suffices, else as few as
// do, else fewer ranks, else more nodes, with more ranks or, where the batch does not
// allow them, with the same. All of them train the same model on the same batches. More
// nodes are tried in growing numbers up to 1024; nothing when not even those would do.
std::optional<Fit> nearest_fit(const Wish& wish, const Planner& plan);

// The largest model of the same proportions (layers to width, width of a head) that fits.
// Nothing when none does.
std::optional<RunPlan> largest_fit(const Wish& wish, const Planner& plan);

// What to try where `wish` does not fit: its nearest_fit, or the ways out beside it.
std::string memory_advice(const Wish& wish, const Planner& plan);

// "--recompute unit --micro-batch 1", "3 nodes like this one: --ranks 6", or "2 nodes like
// this one, with 4 of the ranks each"
std::string to_text(const Fit& fit);

}  // namespace zero::launcher
