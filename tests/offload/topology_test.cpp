#include "offload/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/offload/pretended_machine.h"

namespace zero::topology_test {
namespace {

using ::testing::ElementsAre;

TEST(TopologyTest, IsThatOfThisMachine) {
  const Topology topology = read_topology();
  EXPECT_GE(topology.num_cores, 1);
  EXPECT_LE(topology.num_cores, sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_GE(topology.num_numa_nodes, 1);
  EXPECT_GE(topology.cache_bytes, 0);
  EXPECT_GE(topology.memory_bytes, available_memory_bytes());
  EXPECT_EQ(topology.affinity, current_affinity());
}

TEST(TopologyTest, TheNodesCpusAreTheAllowedOnesInSomeOrder) {
  EXPECT_THAT(cpuset_of_node(), ::testing::UnorderedElementsAreArray(widest_affinity()));
}

TEST(TopologyTest, TheNodesCpusDoNotDependOnABinding) {
  const std::vector<int> before = current_affinity(), expected = cpuset_of_node();
  bind_process({before.front()});
  EXPECT_EQ(cpuset_of_node(), expected);
  bind_process(before);
}

TEST(TopologyTest, EveryCpuIsNearOneNode) {
  const std::vector<int> cpus = current_affinity();
  std::vector<int> found;
  for (const auto& node : by_numa_node(cpus))
    found.insert(found.end(), node.begin(), node.end());
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(cpus));
}

TEST(TopologyTest, CpusAreSortedByTheMachinesNodes) {
  const PretendedMachine machine("numa:3 pu:2");
  EXPECT_THAT(by_numa_node({0, 1, 2, 3, 5}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(5)));
  EXPECT_THAT(by_numa_node({5, 4}), ElementsAre(ElementsAre(5, 4)));
  EXPECT_THAT(by_numa_node({1, 9}), ElementsAre(ElementsAre(1, 9)))
      << "nobody knows where 9 is";
}

TEST(TopologyTest, CpusOfOneNodeTellItsNumber) {
  const PretendedMachine machine("numa:3 pu:2");
  EXPECT_EQ(numa_node_of({2, 3}), 1);
  EXPECT_EQ(numa_node_of({5}), 2);
  EXPECT_EQ(numa_node_of({3, 4}), -1);
  EXPECT_EQ(numa_node_of({9}), -1);
  EXPECT_EQ(numa_node_of({}), -1);
}

TEST(TopologyTest, SlotsAreSharedOutAmongTheNodes) {
  const std::vector<std::vector<int>> nodes{{0, 1, 2, 3}, {4, 5}};
  const auto nodes_of = [&](int num_slots) {
    std::vector<int> first_cpus;
    for (int slot = 0; slot < num_slots; ++slot)
      first_cpus.push_back(node_of_slot(nodes, slot, num_slots).front());
    return first_cpus;
  };
  EXPECT_THAT(nodes_of(6), ElementsAre(0, 0, 0, 0, 4, 4));
  EXPECT_THAT(nodes_of(3), ElementsAre(0, 0, 4));
  EXPECT_THAT(nodes_of(2), ElementsAre(0, 0));
  EXPECT_THAT(nodes_of(12), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4));
}

}  // namespace
}  // namespace zero::topology_test
