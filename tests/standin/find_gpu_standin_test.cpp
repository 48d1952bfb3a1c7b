// Which GPU a rank of several takes, on a machine whose NUMA nodes are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "engine/comm/choose_gpu.h"
#include "offload/affinity.h"
#include "tests/engine/training.h"
#include "tests/offload/pretended_machine.h"
#include "tests/standin/gpu_of_tests.h"

namespace zero::testing::find_gpu_standin_test {
namespace {

using ::testing::ElementsAre;

class FindGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<int> cpus = widest_affinity();
    if (cpus.size() < 2 || cpus[1] != 1) GTEST_SKIP() << "needs CPUs 0 and 1";
  }
  ~FindGpu() override { of_standin<void()>("standin_reset")(); }

  // Of ranks that are bound to one of these CPUs each, in order; none: not bound.
  std::vector<int> found(const std::vector<int>& cpus, int num_ranks) {
    of_standin<void(const std::vector<int>&)>("standin_set_numa_nodes")(gpu_nodes);
    std::vector<int> gpus(num_ranks);
    on_ranks(num_ranks, [&](std::unique_ptr<Ranks> ranks) {
      const int rank = ranks->rank();
      if (!cpus.empty()) bind_process({cpus[rank]});
      gpus[rank] = find_gpu(DeviceChoice::kCuda, *ranks);
    });
    return gpus;
  }

  const PretendedMachine machine{"numa:2 pu:1"};  // CPU 0 is node 0, CPU 1 is node 1
  std::vector<int> gpu_nodes{1, 1, 0, 0};
};

TEST_F(FindGpu, NearToTheRanksCores) {
  EXPECT_THAT(found({0, 1}, 2), ElementsAre(2, 0));
  EXPECT_THAT(found({0, 1, 0, 1}, 4), ElementsAre(2, 0, 3, 1));
}

TEST_F(FindGpu, InTurnWhereNobodyKnowsBetter) {
  EXPECT_THAT(found({}, 3), ElementsAre(0, 1, 2)) << "ranks are on both nodes";
  gpu_nodes.clear();
  EXPECT_THAT(found({0, 1}, 2), ElementsAre(0, 1)) << "nobody tells where GPUs are";
}

TEST_F(FindGpu, NoneOnTheHost) {
  on_ranks(2, [](std::unique_ptr<Ranks> ranks) {
    EXPECT_EQ(find_gpu(DeviceChoice::kCpu, *ranks), -1);
  });
}

}  // namespace
}  // namespace zero::testing::find_gpu_standin_test
