#include <algorithm>

#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero {
namespace {

// Units in forward order, each that has room in the fraction of what is trained: their
// gradients come last and their weights are needed first, so that their updates are
// waited for longest. The root's cannot hide behind anything, those of frozen units are
// none.
std::vector<UnitHome> homes_of(const UnitPlan& plan, const Options& options,
                               UnitMemory where) {
  const bool has_gpu = !is_of_host(where);
  // Sums of groups are added up where one pass leaves them.
  const bool are_groups_on_gpu = where == UnitMemory::kGpu &&
                                 plan.mesh.num_groups() > 1 &&
                                 options.micro_batches_per_rank == 1;
  std::vector<int64_t> numels(plan.units.size());
  int64_t total = 0, kept = 0;
  for (const PlannedPart& part : plan.parts) {
    if (part.is_frozen) continue;
    numels[part.unit] += part.layout.numel;
    total += part.layout.numel;
  }
  std::vector<UnitHome> homes(plan.units.size());
  for (size_t u = 0; u < homes.size(); ++u) {
    UnitHome& home = homes[u];
    const bool is_within =
        numels[u] > 0 && static_cast<double>(kept + numels[u]) <=
                             options.device_state_fraction * static_cast<double>(total);
    if (is_within) kept += numels[u];
    home.state_on_gpu = has_gpu && (plan.units[u].offload == Offload::kNone || is_within);
    home.weights_on_gpu =
        has_gpu && (home.state_on_gpu || plan.units[u].offload != Offload::kAll);
    home.in_place =
        plan.mesh.group == 1 && !options.stream_always && home.weights_on_gpu == has_gpu;
    home.sums_on_gpu = home.state_on_gpu || are_groups_on_gpu ||
                       (has_gpu && options.grad_sums == GradSums::kDevice &&
                        options.micro_batches_per_rank > 1);
  }
  return homes;
}

// Of this rank's masters, whole or in halves, and states.
int64_t draft_bytes(const UnitPlan& plan, const Options& options, int unit) {
  const auto num_states = std::ssize(states_of(options.optimizer.kind));
  int64_t bytes = 0;
  for (const int p : plan.units[unit].parts) {
    const int64_t numel = plan.parts[p].layout.shard_numel;
    if (!plan.parts[p].is_frozen)
      bytes += shard_bytes(numel, 4) +
               num_states * shard_bytes(numel, size_of(options.state_dtype));
  }
  return bytes;
}

// Units in forward order, each that has room: while forward is at them, it need not wait
// for the updates of others. The root's gradient comes last, so it gains the least.
void choose_drafts(const UnitPlan& plan, const Options& options,
                   std::vector<UnitHome>& homes) {
  const int num_units = static_cast<int>(homes.size());
  int64_t left = options.inference ? 0 : options.speculate_bytes;
  for (int i = 1; i <= num_units; ++i) {
    UnitHome& home = homes[i % num_units];
    const int64_t bytes = draft_bytes(plan, options, i % num_units);
    home.has_draft = !home.state_on_gpu && bytes > 0 && bytes <= left;
    if (home.has_draft) left -= bytes;
  }
}

}  // namespace

std::vector<UnitHome> make_homes(const UnitPlan& plan, const Options& options,
                                 UnitMemory where) {
  std::vector<UnitHome> homes = homes_of(plan, options, where);
  choose_drafts(plan, options, homes);
  return homes;
}

}  // namespace zero
