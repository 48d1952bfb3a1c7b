#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/comm/choose_gpu.h"

namespace zero::plan_deal_gpus_test {
namespace {

using ::testing::ElementsAre;

TEST(DealGpus, InTurnWhereAllIsOneNodeOrNobodyTells) {
  EXPECT_THAT(deal_gpus({0, 0, 0, 0, 0}, {0, 0}), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_THAT(deal_gpus({-1, -1, -1}, {0, 0, 1, 1}), ElementsAre(0, 1, 2));
  EXPECT_THAT(deal_gpus({0, 1, 0}, {-1, -1}), ElementsAre(0, 1, 0));
  EXPECT_THAT(deal_gpus({0, 0}, {0}), ElementsAre(0, 0));
}

TEST(ChooseGpu, ShardsStayWhereRanksNeedNotSendThemByTheHost) {
  EXPECT_TRUE(may_keep_shards(UnitMemory::kGpu, 2));
  EXPECT_TRUE(may_keep_shards(UnitMemory::kGpuByHost, 1));
  EXPECT_FALSE(may_keep_shards(UnitMemory::kGpuByHost, 2));
  EXPECT_FALSE(may_keep_shards(UnitMemory::kHost, 1));
}

TEST(ExpectedUnitMemory, IsSharedWhereNoGroupIsSpreadOverHosts) {
  Options options;
  options.device = DeviceChoice::kCpu;
  const auto is_shared = [&](int world_size, int ranks_of_host) {
    return expected_unit_memory(options, world_size, ranks_of_host) ==
           UnitMemory::kSharedHost;
  };
  EXPECT_FALSE(is_shared(1, 1));
  EXPECT_TRUE(is_shared(4, 4));
  EXPECT_TRUE(is_shared(4, 0)) << "all on one host";
  EXPECT_FALSE(is_shared(4, 2));
  options.shard_ranks = 2;
  EXPECT_TRUE(is_shared(8, 4));
  EXPECT_FALSE(is_shared(6, 3)) << "the second group has ranks of two hosts";
}

HostView view(const std::string& host, int local_rank, int node,
              std::vector<std::string> gpus) {
  return {host, local_rank, node, std::move(gpus), {0, 1}};
}

TEST(NearestGpu, IsDealtAmongTheRanksOfTheHost) {
  const std::vector<HostView> all = {view("a", 0, 1, {"x", "y"}),
                                     view("b", 0, 0, {"z", "w"}),
                                     view("a", 1, 0, {"x", "y"})};
  EXPECT_EQ(nearest_gpu(all[0], all), 1);
  EXPECT_EQ(nearest_gpu(all[1], all), 0);
  EXPECT_EQ(nearest_gpu(all[2], all), 0);
}

// Whichever rank it is that sees others.
TEST(NearestGpu, IsTheNextOneWhereRanksDoNotSeeTheSame) {
  for (int other = 0; other < 3; ++other) {
    std::vector<HostView> all;
    for (int rank = 0; rank < 3; ++rank)
      all.push_back(view("a", rank, 1 - rank % 2,
                         rank == other ? std::vector<std::string>{"z", "w"}
                                       : std::vector<std::string>{"x", "y"}));
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(nearest_gpu(all[rank], all), rank % 2) << rank << " " << other;
  }
}

TEST(NearestGpu, IsTheNextOneWhereRanksAreNotNumbered) {
  const std::vector<HostView> twice = {view("a", 0, 1, {"x", "y"}),
                                       view("a", 0, 1, {"x", "y"})};
  EXPECT_EQ(nearest_gpu(twice[0], twice), 0);
  const std::vector<HostView> gap = {view("a", 0, 1, {"x", "y"}),
                                     view("a", 3, 0, {"x", "y"})};
  EXPECT_EQ(nearest_gpu(gap[0], gap), 0);
  EXPECT_EQ(nearest_gpu(gap[1], gap), 1);
}

TEST(DealGpus, OfTheRanksOwnNode) {
  EXPECT_THAT(deal_gpus({0, 1}, {0, 0, 1, 1}), ElementsAre(0, 2));
  EXPECT_THAT(deal_gpus({1, 0}, {0, 1}), ElementsAre(1, 0));
  EXPECT_THAT(deal_gpus({0, 1, 0, 1}, {0, 0, 1, 1}), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(deal_gpus({1, 1, 1, 1, 0, 0, 0, 0}, {0, 0, 1, 1}),
              ElementsAre(2, 3, 2, 3, 0, 1, 0, 1));
}

TEST(DealGpus, OfAnotherNodeWhereItsOwnAreTaken) {
  EXPECT_THAT(deal_gpus({0, 0, 0, 1}, {0, 0, 1, 1}), ElementsAre(0, 1, 3, 2));
  EXPECT_THAT(deal_gpus({2, 0}, {0, 1}), ElementsAre(1, 0)) << "2 has none";
  EXPECT_THAT(deal_gpus({-1, 0}, {0, 1}), ElementsAre(1, 0)) << "who knows comes first";
}

// Whatever the nodes.
TEST(DealGpus, NoGpuHasMoreRanksThanInTurn) {
  for (int num_ranks = 1; num_ranks <= 9; ++num_ranks) {
    for (int pattern = 0; pattern < 1 << num_ranks; ++pattern) {
      std::vector<int> nodes, loads(4), in_turn(4);
      for (int rank = 0; rank < num_ranks; ++rank) {
        nodes.push_back(pattern >> rank & 1);
        ++in_turn[rank % 4];
      }
      for (const int gpu : deal_gpus(nodes, {0, 0, 1, 1})) ++loads.at(gpu);
      std::ranges::sort(loads, std::greater<>());
      ASSERT_EQ(loads, in_turn) << num_ranks << " ranks, nodes " << pattern;
    }
  }
}

}  // namespace
}  // namespace zero::plan_deal_gpus_test
