#include <gmock/gmock.h>

#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero::plan_memory_plan_test {
namespace {

using ::testing::ElementsAre;

// A root and units of so many elements.
class MemoryPlanTest : public ::testing::Test {
 protected:
  MemoryPlan plan(UnitMemory where = UnitMemory::kGpu, int world_size = 1) {
    std::vector<UnitDescription> units{{"", "Model", -1}};
    std::vector<ParamDescription> params{{"wte", {root}, {"wte"}, {0}, true}};
    for (size_t u = 0; u < numels.size(); ++u) {
      const std::string fqn = "h." + std::to_string(u), name = fqn + ".w";
      units.push_back({fqn, "Block", 0});
      params.push_back({name, {numels[u]}, {name}, {static_cast<int>(u) + 1}, true});
    }
    return make_memory_plan(make_unit_plan(units, params, options, world_size), options,
                            where);
  }
  // Of each unit: does its state lie on the GPU?
  std::vector<bool> on_gpu() {
    std::vector<bool> all;
    for (const UnitHome& home : plan().homes) all.push_back(home.state_on_gpu);
    return all;
  }
  static int64_t bytes(const MemoryPlan& memory, const std::string& owner,
                       const std::string& tier) {
    for (const MemoryEntry& entry : memory.entries)
      if (entry.owner == owner && entry.tier == tier) return entry.bytes;
    return 0;
  }

  int64_t root = 1024;
  std::vector<int64_t> numels{1024, 1024, 1024};
  Options options;
};

TEST_F(MemoryPlanTest, AFractionTakesTheFirstUnits) {
  options.device_state_fraction = 0.5;
  EXPECT_THAT(on_gpu(), ElementsAre(true, true, false, false));
  options.device_state_fraction = 0.49;
  EXPECT_THAT(on_gpu(), ElementsAre(true, false, false, false));
}

TEST_F(MemoryPlanTest, AFractionIsOfWhatIsTrained) {
  options.device_state_fraction = 0.5;
  options.groups = {{"h.0.*", 1, {}, /*frozen=*/true}};
  EXPECT_THAT(on_gpu(), ElementsAre(true, false, false, false));
  options.device_state_fraction = 0.67;
  EXPECT_THAT(on_gpu(), ElementsAre(true, false, true, false));
}

TEST_F(MemoryPlanTest, WeightsMayStayWhereTheirStateDoesNot) {
  EXPECT_FALSE(plan().homes[1].weights_on_gpu);
  EXPECT_EQ(bytes(plan(), "weights", "device"), 0);
  options.offload = Offload::kOptimizer;
  EXPECT_TRUE(plan().homes[1].weights_on_gpu);
  EXPECT_FALSE(plan().homes[1].state_on_gpu);
  EXPECT_EQ(bytes(plan(), "weights", "device"), 4 * 1024 * 4);
  EXPECT_FALSE(plan().adds_in_place(1)) << "the gradient leaves for the host";
  options.dtype = DType::kBf16;
  EXPECT_EQ(bytes(plan(), "weights", "device"), 4 * 1024 * 2);
  options.offload = Offload::kNone;
  EXPECT_TRUE(plan().homes[1].state_on_gpu);
  EXPECT_EQ(bytes(plan(), "weights", "device"), 0) << "they lie beside the state";
}

TEST_F(MemoryPlanTest, OneRankStreamsWhereItIsToldTo) {
  EXPECT_TRUE(plan(UnitMemory::kHost).homes[1].in_place);
  options.stream_always = true;
  EXPECT_FALSE(plan(UnitMemory::kHost).homes[1].in_place);
}

TEST_F(MemoryPlanTest, WhatNcclDoesNotSumAsWeDoIsExchanged) {
  const auto exchanged = [&](UnitMemory where, int world_size, const char* tier) {
    return bytes(plan(where, world_size), "exchange", tier);
  };
  EXPECT_EQ(exchanged(UnitMemory::kGpu, 2, "device"), 0);
  options.reduce_dtype = DType::kBf16;
  EXPECT_EQ(exchanged(UnitMemory::kGpu, 2, "device"), 32 << 20);
  EXPECT_EQ(exchanged(UnitMemory::kGpu, 1, "device"), 0);
  options.reduce_dtype = DType::kFp32;
  EXPECT_EQ(exchanged(UnitMemory::kGpuByHost, 2, "host"), 32 << 20);
  EXPECT_EQ(exchanged(UnitMemory::kGpuByHost, 40000, "host"), 1024 * 40000)
      << "a leaf for each of many ranks";
}

TEST_F(MemoryPlanTest, ACounterHasALevelForEachBit) {
  options.deterministic = true;
  for (const auto& [passes, levels] :
       {std::pair(1, 0), std::pair(2, 2), std::pair(3, 2), std::pair(4, 3)}) {
    options.micro_batches_per_rank = passes;
    EXPECT_EQ(plan().num_counter_levels, levels) << passes;
  }
}

TEST_F(MemoryPlanTest, KernelsAreForWhatAGpuTrainsOrKeeps) {
  EXPECT_TRUE(plan().has_kernels);
  EXPECT_FALSE(plan(UnitMemory::kHost).has_kernels);
  options.inference = true;
  EXPECT_FALSE(plan().has_kernels);
  options.offload = Offload::kNone;
  EXPECT_TRUE(plan().has_kernels);
}

TEST_F(MemoryPlanTest, FrozenUnitsTakeNoSlotOfGradients) {
  EXPECT_EQ(bytes(plan(), "gradient ring", "device"), 2 * 1024 * 4);
  options.groups = {{"h.*", 1, {}, /*frozen=*/true}};
  EXPECT_EQ(bytes(plan(), "gradient ring", "device"), 1024 * 4);
}

TEST_F(MemoryPlanTest, FrozenWeightsMayBeAllThatThereIs) {
  const auto host_bytes = [&](const char* owner) { return bytes(plan(), owner, "host"); };
  options.dtype = DType::kFp16;
  options.groups = {{"h.0.*", 1, {}, /*frozen=*/true}};
  EXPECT_EQ(host_bytes("masters"), 4 * 1024 * 4);
  EXPECT_EQ(host_bytes("fp16 copy"), 4 * 1024 * 2);
  options.frozen_dtype = DType::kFp16;
  EXPECT_EQ(host_bytes("masters"), 3 * 1024 * 4);
  EXPECT_EQ(host_bytes("fp16 copy"), 3 * 1024 * 2);
  EXPECT_EQ(host_bytes("frozen weights"), 1024 * 2);
  options.inference = true;
  EXPECT_EQ(host_bytes("masters"), 0);
  EXPECT_EQ(host_bytes("frozen weights"), 4 * 1024 * 2);
  options.unit_options = {{.pattern = "h.1", .dtype = DType::kFp32}};
  options.dtype = options.frozen_dtype = DType::kBf16;
  EXPECT_EQ(host_bytes("frozen weights"), 3 * 1024 * 2);
  EXPECT_EQ(host_bytes("masters"), 1024 * 4) << "of the unit that computes in fp32";
}

// Two ranks of a host.
TEST_F(MemoryPlanTest, WhatNoStepChangesMayBeShared) {
  const auto shared = [&] { return plan(UnitMemory::kSharedHost, 2); };
  EXPECT_THAT(shared().is_shared, ElementsAre(false, false, false, false));
  EXPECT_EQ(shared().shared_bytes(), 0);
  options.groups = {{"h.*", 1, {}, /*frozen=*/true}};
  EXPECT_THAT(shared().is_shared, ElementsAre(false, true, true, true));
  EXPECT_EQ(shared().shared_bytes(), 3 * 1024 * 4 / 2);
  EXPECT_EQ(bytes(shared(), "masters", "host"), 4 * 1024 * 4 / 2) << "each rank its own";
  EXPECT_EQ(bytes(shared(), "gather ring", "device"), 0);
  EXPECT_EQ(bytes(shared(), "root weights", "device"), 1024 * 4);
  EXPECT_EQ(plan(UnitMemory::kHost, 2).shared_bytes(), 0);
  options.dtype = DType::kBf16;  // beside masters
  EXPECT_EQ(shared().shared_bytes(), 3 * 1024 * 2 / 2);
  options.stream_always = true;
  EXPECT_EQ(shared().shared_bytes(), 0);
}

TEST_F(MemoryPlanTest, InferenceChangesNoWeights) {
  options.inference = true;
  const MemoryPlan memory = plan(UnitMemory::kSharedHost, 2);
  EXPECT_EQ(memory.shared_bytes(), 4 * 1024 * 4 / 2);
  int64_t all = 0;
  for (const MemoryEntry& entry : memory.entries) all += entry.bytes;
  EXPECT_EQ(all, memory.shared_bytes());
}

TEST_F(MemoryPlanTest, WhatIsSharedAndDecodedTakesSlots) {
  options.groups = {{"h.*", 1, {}, /*frozen=*/true}};
  options.frozen_dtype = DType::kInt8;
  const MemoryPlan memory = plan(UnitMemory::kSharedHost, 2);
  EXPECT_EQ(memory.shared_bytes(), 3 * round_up(4 * 132, 64));
  EXPECT_EQ(bytes(memory, "gather ring", "device"), 2 * 1024 * 4);
}

// A slot for each of two units, though one rank gathers nothing else.
TEST_F(MemoryPlanTest, WhatIsDecodedTakesSlotsWhereverItIsComputed) {
  options.groups = {{"h.*", 1, {}, /*frozen=*/true}};
  options.offload = Offload::kNone;
  for (const auto& [kept, bytes_kept] :
       {std::pair(DType::kBf16, 1024 * 2), std::pair(DType::kInt8, 8 * 132)}) {
    options.frozen_dtype = kept;
    for (const UnitMemory where : {UnitMemory::kHost, UnitMemory::kGpu}) {
      const MemoryPlan memory = plan(where);
      const char* const tier = where == UnitMemory::kGpu ? "device" : "host";
      const int64_t padded = round_up(bytes_kept, where == UnitMemory::kGpu ? 256 : 64);
      EXPECT_EQ(bytes(memory, "frozen weights", tier), 3 * padded);
      EXPECT_EQ(bytes(memory, "masters", tier), 1024 * 4);
      EXPECT_EQ(bytes(memory, "gather ring", "device"), 2 * 1024 * 4);
      EXPECT_EQ(bytes(memory, "root weights", "device"), 0);
    }
    options.inference = true;
    EXPECT_EQ(bytes(plan(), "frozen weights", "device"), 0) << "nothing is rounded";
    options.inference = false;
  }
}

TEST_F(MemoryPlanTest, AUnitThatIsTooLargeIsPassedOver) {
  options.device_state_fraction = 0.5;
  root = 1 << 20;
  EXPECT_THAT(on_gpu(), ElementsAre(false, true, true, true));
}

// The landings' pieces have one size, however large a unit is.
TEST_F(MemoryPlanTest, PassesLandInPieces) {
  options.micro_batches_per_rank = 3;
  EXPECT_EQ(bytes(plan(), "gradient landing", "host"), kNumLandings * 1024 * 4);
  root = 1 << 26;
  EXPECT_EQ(bytes(plan(), "gradient landing", "host"), kNumLandings * 4 << 20);
  EXPECT_EQ(bytes(plan(), "accumulation", "host"), 0);
  EXPECT_EQ(bytes(plan(UnitMemory::kGpuByHost, 2), "gradient landing", "host"), 0);
  EXPECT_EQ(bytes(plan(UnitMemory::kGpuByHost, 2), "accumulation", "host"), root / 2 * 4);
}

// Of masters and two states, 12 bytes a parameter; the root comes last.
TEST_F(MemoryPlanTest, DraftsOfTheFirstUnitsThatHaveRoom) {
  const auto drafts = [&] {
    std::vector<bool> all;
    for (const UnitHome& home : plan().homes) all.push_back(home.has_draft);
    return all;
  };
  EXPECT_THAT(drafts(), ::testing::Each(false));
  options.speculate_bytes = 2 * 1024 * 12;
  EXPECT_THAT(drafts(), ElementsAre(false, true, true, false));
  EXPECT_EQ(bytes(plan(), "drafts", "host"), options.speculate_bytes);
  numels[1] = 2048;  // passed over
  EXPECT_THAT(drafts(), ElementsAre(false, true, false, true));
  options.speculate_bytes = 1 << 20;
  EXPECT_THAT(drafts(), ::testing::Each(true));
  options.device_state_fraction = 0.4;  // of the root and the first unit
  EXPECT_THAT(drafts(), ElementsAre(false, false, true, true));
  options.state_dtype = DType::kBf16;
  EXPECT_EQ(bytes(plan(), "drafts", "host"), (2048 + 1024) * 8);
  options.dtype = DType::kBf16, options.master = MasterStorage::kSplit;
  EXPECT_EQ(bytes(plan(), "drafts", "host"), (2048 + 1024) * 8);
  options.inference = true;
  EXPECT_THAT(drafts(), ::testing::Each(false));
}

TEST_F(MemoryPlanTest, SumsOnTheGpuTakeFourBytesAParameter) {
  options.grad_sums = GradSums::kDevice;
  EXPECT_EQ(bytes(plan(), "accumulation", "device"), 0) << "one pass is no sum";
  options.micro_batches_per_rank = 3;
  EXPECT_EQ(bytes(plan(), "accumulation", "device"), 4 * 1024 * 4);
  EXPECT_EQ(bytes(plan(), "gradient landing", "host"), 0);
  EXPECT_EQ(bytes(plan(), "gradients", "host"), 4 * 1024 * 4);
  options.grad_dtype = DType::kBf16;
  EXPECT_EQ(bytes(plan(), "gradients", "host"), 4 * 1024 * 2);
}

}  // namespace
}  // namespace zero::plan_memory_plan_test
