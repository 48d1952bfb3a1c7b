#include <gmock/gmock.h>

#include "engine/plan/traffic_plan.h"
#include "engine/plan/unit_plan.h"

namespace zero::plan_traffic_plan_test {
namespace {

using ::testing::ElementsAre;

// A root of 256 elements and units of so many; two ranks share them without padding.
class TrafficPlanTest : public ::testing::Test {
 protected:
  static constexpr int kRoot = 256;

  explicit TrafficPlanTest(std::vector<int64_t> numels = {256, 256, 256, 256})
      : numels_(std::move(numels)) {}

  void plan(const Mesh& mesh, UnitMemory where) {
    std::vector<UnitDescription> units{{"", "Model", -1}};
    std::vector<ParamDescription> params{
        {"wte", {kRoot}, {"wte"}, {0}, /*requires_grad=*/true}};
    for (size_t u = 0; u < numels_.size(); ++u) {
      const std::string fqn = "h." + std::to_string(u), name = fqn + ".w";
      units.push_back({fqn, "Block", 0});
      params.push_back({name, {numels_[u]}, {name}, {static_cast<int>(u) + 1}, true});
    }
    plan_ = make_unit_plan(units, params, options_, mesh);
    memory_ = make_memory_plan(plan_, options_, where);
  }
  std::vector<int64_t> gathers() {
    plan(2, UnitMemory::kHost);
    return gathers_of_step(plan_, memory_, options_);
  }
  Traffic step(const Mesh& mesh, UnitMemory where = UnitMemory::kHost,
               int ranks_of_host = 0) {
    plan(mesh, where);
    return make_traffic_plan(plan_, memory_, options_, where, ranks_of_host);
  }

  std::vector<int64_t> numels_;
  Options options_;
  UnitPlan plan_;
  MemoryPlan memory_;
};

TEST_F(TrafficPlanTest, TheUnitsAtATurningPointAreStillThere) {
  EXPECT_THAT(gathers(), ElementsAre(1, 2, 2, 1, 1));
  options_.prefetch = 0;
  EXPECT_THAT(gathers(), ElementsAre(1, 2, 2, 2, 1));
  options_.micro_batches_per_rank = 3;  // 4 + 5 * 3, and the root
  EXPECT_THAT(gathers(), ElementsAre(1, 1 + 3, 1 + 3 + 2, 1 + 3 + 2, 1 + 2));
  options_.reshard_after_forward = false;
  EXPECT_THAT(gathers(), ElementsAre(1, 1, 1, 1, 1));
}

TEST_F(TrafficPlanTest, UnitsOfOtherSizesHaveSlotsOfTheirOwn) {
  numels_ = {256, 256, 1 << 20, 256, 256};
  EXPECT_THAT(gathers(), ElementsAre(1, 2, 2, 1, 1, 1));
  options_.micro_batches_per_rank = 2;
  EXPECT_THAT(gathers(), ElementsAre(1, 3, 3, 1, 2, 2));
}

TEST_F(TrafficPlanTest, OneRankOnTheHostMovesNothing) {
  EXPECT_EQ(step(1), Traffic());
  EXPECT_THAT(gathers_of_step(plan_, memory_, options_), ElementsAre(0, 0, 0, 0, 0));
  options_.stream_always = true;
  EXPECT_EQ(step(1), Traffic());
}

// Of 1280 elements some are gathered twice, all are reduced once.
constexpr int64_t kWeights = 256 + 6 * 256, kGradients = 256 + 4 * 256;

TEST_F(TrafficPlanTest, RanksOfHostsExchangeAllButTheirOwn) {
  EXPECT_EQ(step(2), (Traffic{0, 0, kWeights * 4 / 2, kGradients * 4 / 2}));
  options_.dtype = options_.reduce_dtype = DType::kBf16;
  EXPECT_EQ(step(2), (Traffic{0, 0, kWeights * 2 / 2, kGradients * 2 / 2}));
  options_.micro_batches_per_rank = 2;  // and twice more of three units
  EXPECT_EQ(step(2), (Traffic{0, 0, (kWeights + 4 * 256) * 2 / 2, kGradients * 2}));
}

// Of one GPU in bf16, whose weights come over as often as they are needed.
Traffic out(int64_t gradient_bytes) {
  return {kWeights * 2, gradient_bytes + kGpuNormBytes, 0, 0};
}

TEST_F(TrafficPlanTest, OneGpuGetsWeightsAndGivesGradients) {
  options_.dtype = DType::kBf16;
  EXPECT_EQ(step(1, UnitMemory::kGpu), out(kGradients * 2));  // as autograd made them
  options_.dtype = DType::kFp32;
  EXPECT_EQ(step(1, UnitMemory::kGpu).from_device, kGradients * 4 + kGpuNormBytes);
  options_.grad_dtype = DType::kBf16;
  EXPECT_EQ(step(1, UnitMemory::kGpu).from_device, kGradients * 2 + kGpuNormBytes);
}

TEST_F(TrafficPlanTest, WeightsThatStayFollowTheirUpdate) {
  options_.offload = Offload::kOptimizer;
  EXPECT_EQ(step(1, UnitMemory::kGpu),
            (Traffic{kGradients * 4, kGradients * 4 + kGpuNormBytes, 0, 0}));
}

// Of units that work through several micro-batches, sums in fp32 leave, of the root what
// autograd made.
TEST_F(TrafficPlanTest, UnitByUnitAGpuGivesSums) {
  options_.dtype = DType::kBf16;
  options_.accumulate = Accumulate::kUnit;
  EXPECT_EQ(step(1, UnitMemory::kGpu), out(kRoot * 2 + (kGradients - kRoot) * 4));
  options_.grad_dtype = DType::kBf16;
  EXPECT_EQ(step(1, UnitMemory::kGpu), out(kGradients * 2));
}

TEST_F(TrafficPlanTest, SeveralPassesLeaveAGpuOneByOneOrAsOneSum) {
  options_.dtype = DType::kBf16;
  options_.reshard_after_forward = false;
  options_.micro_batches_per_rank = 3;
  EXPECT_EQ(step(1, UnitMemory::kGpu).from_device, kGradients * 2 * 3 + kGpuNormBytes);
  options_.grad_sums = GradSums::kDevice;
  EXPECT_EQ(step(1, UnitMemory::kGpu).from_device, kGradients * 4 + kGpuNormBytes);
  options_.grad_dtype = DType::kBf16;
  EXPECT_EQ(step(1, UnitMemory::kGpu).from_device, kGradients * 2 + kGpuNormBytes);
  EXPECT_EQ(step(2, UnitMemory::kGpu).from_device, kGradients + kGpuNormBytes);
}

TEST_F(TrafficPlanTest, SeveralGpusCopyTheirOwnSharesAndSumsInFp32) {
  options_.dtype = options_.reduce_dtype = DType::kBf16;
  EXPECT_EQ(step(2, UnitMemory::kGpu),
            (Traffic{kWeights * 2 / 2, kGradients * 4 / 2 + kGpuNormBytes,
                     kWeights * 2 / 2, kGradients * 2 / 2}));
}

TEST_F(TrafficPlanTest, ByWayOfTheHostEverythingIsCopied) {
  options_.dtype = options_.reduce_dtype = DType::kBf16;
  EXPECT_EQ(step(2, UnitMemory::kGpuByHost),
            (Traffic{kWeights * 2, kGradients * 2 + kGpuNormBytes, kWeights * 2 / 2,
                     kGradients * 2 / 2}));
}

TEST_F(TrafficPlanTest, FrozenWeightsHaveNoGradients) {
  options_.groups = {{"h.0.*", 1, {}, /*frozen=*/true}};
  EXPECT_EQ(step(2), (Traffic{0, 0, kWeights * 4 / 2, (kGradients - 256) * 4 / 2}));
}

TEST_F(TrafficPlanTest, WhatRanksShareDoesNotMove) {
  options_.groups = {{"h.*", 1, {}, /*frozen=*/true}};
  const Traffic root{0, 0, kRoot * 4 / 2, kRoot * 4 / 2};
  EXPECT_EQ(step(2, UnitMemory::kSharedHost), root);
  options_.frozen_dtype = DType::kBf16;  // decoded from where it lies
  EXPECT_EQ(step(2, UnitMemory::kSharedHost), root);
}

TEST(Traffic, OfAStepIsTheDifferenceOfTwoCounts) {
  EXPECT_EQ((Traffic{9, 8, 7, 6}) - (Traffic{1, 2, 3, 4}), (Traffic{8, 6, 4, 2}));
}

// With G ranks on a host, of W, M_w bytes of all weights and M_g of all gradients:
// sharded over all, (2 M_w + M_g) (W - G) / W; over a host's ranks, (M_w + M_g) (W - G) /
// (G W).
TEST_F(TrafficPlanTest, GroupsOfAHostLetLittleTravelBetweenHosts) {
  options_.prefetch = 0;
  numels_ = {1024, 1024, 1024, 1024};
  const auto across = [&](int group) {
    return step(Mesh(8, group), UnitMemory::kHost, /*ranks_of_host=*/4).across;
  };
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    options_.dtype = dtype;
    plan(8, UnitMemory::kHost);
    ASSERT_EQ(plan_.parts[0].layout.numel, 1024) << "the root, padded";
    // But the root and the last unit are gathered once: see gathers_of_step().
    const int64_t weights = 5 * 1024 * size_of(dtype), twice = weights / 5 * 3;
    const int64_t gradients = 5 * 1024 * 4;
    EXPECT_EQ(across(8), (weights + twice + gradients) * (8 - 4) / 8);
    EXPECT_EQ(across(4), (weights + gradients) * (8 - 4) / (4 * 8));
    EXPECT_EQ(across(2), (weights + gradients) / 8 * 2);  // of four groups, two elsewhere
    EXPECT_EQ(across(1), (weights + gradients) / 8 * 4);
  }
  EXPECT_EQ(step(Mesh(8, 4), UnitMemory::kHost, 8).across, 0);
}

TEST_F(TrafficPlanTest, GroupsExchangeOnceAStepWhateverThePasses) {
  options_.micro_batches_per_rank = 3;
  const Traffic all = step(4), groups = step(Mesh(4, 2));
  const int64_t model = 5 * 512 * 4;  // with padding to four ranks
  const std::vector<int64_t> gathered = gathers_of_step(plan_, memory_, options_);
  int64_t full = 0;
  for (const int64_t count : gathered) full += count * 512 * 4;
  EXPECT_EQ(groups.gathered, full / 2 + model / 4);
  EXPECT_EQ(groups.reduced, 3 * model / 2 + model / 4);
  EXPECT_EQ(all.reduced, 3 * model * 3 / 4);
}

}  // namespace
}  // namespace zero::plan_traffic_plan_test
