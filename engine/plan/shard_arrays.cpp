#include <algorithm>

#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero {
namespace {

// The step's gradient can be kept in its own type where nothing is added to it there.
DType kept_gradients(const UnitPlan& plan, const Options& options,
                     const std::vector<UnitHome>& homes, bool on_gpu) {
  const bool is_whole = options.micro_batches_per_rank == 1 ||
                        plan.mesh.num_groups() > 1 ||
                        (!on_gpu && std::ranges::any_of(homes, &UnitHome::sums_leave));
  return is_whole ? options.grad_dtype : DType::kFp32;
}

bool has_masters(const PlannedPart& part) { return part.kept == DType::kFp32; }

// Of shards whose masters lie there.
std::vector<ShardArray> shard_arrays(const UnitPlan& plan, const Options& options,
                                     const std::vector<UnitHome>& homes, bool on_gpu) {
  std::vector<int> trained;
  // Masters of parts that are trained, and of those that are frozen; whole and split.
  std::vector<int> whole[2], split[2];
  for (int p = 0; p < std::ssize(plan.parts); ++p) {
    if (homes[plan.parts[p].unit].state_on_gpu != on_gpu) continue;
    const bool is_frozen = plan.parts[p].is_frozen;
    const bool is_split =
        plan.parts[p].dtype != DType::kFp32 && options.master == MasterStorage::kSplit;
    if (!is_frozen) trained.push_back(p);
    if (!has_masters(plan.parts[p])) continue;
    (is_split ? split : whole)[is_frozen].push_back(p);
  }
  std::vector<ShardArray> arrays;
  const auto add_masters = [&](bool is_frozen) {
    if (!whole[is_frozen].empty())
      arrays.push_back({"masters", ShardRole::kMaster, DType::kFp32, whole[is_frozen]});
    if (!split[is_frozen].empty()) {
      arrays.push_back({"low halves of masters", ShardRole::kMasterLow, DType::kBf16,
                        split[is_frozen]});
    }
  };
  add_masters(/*is_frozen=*/false);
  if (!options.inference) {
    const auto states = states_of(options.optimizer.kind);
    for (int i = 0; i < std::ssize(states); ++i) {
      arrays.push_back(
          {std::string(states[i]), ShardRole::kState, options.state_dtype, trained, i});
    }
    arrays.push_back({"gradients", ShardRole::kGradient,
                      kept_gradients(plan, options, homes, on_gpu), trained});
  }
  add_masters(/*is_frozen=*/true);
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kInt8}) {
    ShardArray copies{name_of(dtype) + std::string(" copy"), ShardRole::kCopy, dtype, {}};
    ShardArray alone{"frozen weights", ShardRole::kCopy, dtype, {}};
    for (int p = 0; p < std::ssize(plan.parts); ++p) {
      const PlannedPart& part = plan.parts[p];
      if (homes[part.unit].state_on_gpu == on_gpu && part.gathered_type() == dtype)
        (has_masters(part) ? copies : alone).parts.push_back(p);
    }
    arrays.push_back(std::move(copies));
    arrays.push_back(std::move(alone));
  }
  std::erase_if(arrays, [](const ShardArray& array) { return array.parts.empty(); });
  for (ShardArray& array : arrays) array.on_gpu = on_gpu;
  return arrays;
}

// Of masters and states of units that have one.
std::vector<ShardArray> draft_arrays(const UnitPlan& plan,
                                     const std::vector<UnitHome>& homes,
                                     const std::vector<ShardArray>& arrays) {
  std::vector<ShardArray> drafts;
  for (ShardArray draft : arrays) {
    std::erase_if(draft.parts, [&](int part) {
      return plan.parts[part].is_frozen || !homes[plan.parts[part].unit].has_draft;
    });
    draft.owner = "drafts";
    draft.is_draft = true;
    const bool is_meant = draft.role == ShardRole::kMaster ||
                          draft.role == ShardRole::kMasterLow ||
                          draft.role == ShardRole::kState;
    if (!is_meant || draft.parts.empty()) continue;
    drafts.push_back(draft);
    if (draft.role != ShardRole::kMasterLow) continue;
    draft.role = ShardRole::kOldHigh;
    drafts.push_back(draft);
  }
  return drafts;
}

// Is it what a rank's group gathers of the part?
bool has_weights(const ShardArray& array, const PlannedPart& part,
                 const std::vector<UnitHome>& homes) {
  const UnitHome& home = homes[part.unit];
  const bool are_masters = array.role == ShardRole::kMaster && !array.is_draft;
  return home.weights_on_gpu && !home.state_on_gpu
             ? array.role == ShardRole::kWeights
             : array.role == ShardRole::kCopy ||
                   (are_masters && part.dtype == DType::kFp32);
}

// Weights that ranks share are an array of their own.
std::vector<ShardArray> with_shared_apart(const std::vector<ShardArray>& arrays,
                                          const UnitPlan& plan,
                                          const std::vector<UnitHome>& homes,
                                          const std::vector<bool>& is_part_shared) {
  std::vector<ShardArray> apart;
  for (const ShardArray& array : arrays) {
    for (const bool is_shared : {false, true}) {
      ShardArray& one = apart.emplace_back(array);
      one.is_shared = is_shared;
      std::erase_if(one.parts, [&](int p) {
        return is_shared !=
               (is_part_shared[p] && has_weights(array, plan.parts[p], homes));
      });
      if (one.parts.empty()) apart.pop_back();
    }
  }
  return apart;
}

}  // namespace

int64_t ShardArray::bytes(size_t i) const {
  return round_up(bytes_of(dtype, numels[i]), on_gpu ? 256 : 64);  // as arenas do
}

int64_t ShardArray::bytes() const {
  int64_t total = 0;
  for (size_t i = 0; i < parts.size(); ++i) total += bytes(i);
  return total;
}

std::vector<ShardArray> make_shard_arrays(const UnitPlan& plan, const Options& options,
                                          const std::vector<UnitHome>& homes,
                                          const std::vector<bool>& is_shared) {
  std::vector<ShardArray> arrays = with_shared_apart(
      shard_arrays(plan, options, homes, /*on_gpu=*/false), plan, homes, is_shared);
  for (const ShardArray& draft : draft_arrays(plan, homes, arrays))
    arrays.push_back(draft);
  for (const ShardArray& array : shard_arrays(plan, options, homes, /*on_gpu=*/true))
    arrays.push_back(array);
  for (const DType dtype : {DType::kBf16, DType::kFp16, DType::kInt8, DType::kFp32}) {
    ShardArray weights{"weights", ShardRole::kWeights, dtype, {}, 0, /*on_gpu=*/true};
    for (int p = 0; p < std::ssize(plan.parts); ++p) {
      const UnitHome& home = homes[plan.parts[p].unit];
      if (home.weights_on_gpu && !home.state_on_gpu &&
          plan.parts[p].gathered_type() == dtype)
        weights.parts.push_back(p);
    }
    if (!weights.parts.empty()) arrays.push_back(weights);
  }
  // What a rank's group gathers, it has for all of the group's slices.
  for (ShardArray& array : arrays) {
    for (const int p : array.parts) {
      const FlatLayout& layout = plan.parts[p].layout;
      array.numels.push_back(has_weights(array, plan.parts[p], homes)
                                 ? layout.group_numel
                                 : layout.shard_numel);
    }
  }
  return arrays;
}

}  // namespace zero
