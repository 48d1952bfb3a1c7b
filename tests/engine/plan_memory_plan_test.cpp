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
                            world_size, where);
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
