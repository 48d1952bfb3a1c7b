#include "offload/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace zero {
namespace {

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

}  // namespace
}  // namespace zero
