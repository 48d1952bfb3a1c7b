#include <gmock/gmock.h>

#include "launcher/process/mpirun.h"

namespace zero::launcher::start_ranks_test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

TEST(StartRanks, TheCommandIsMpirunsWithTheUsersWords) {
  EXPECT_THAT(mpirun_words({2, "", {"train", "--out", "a b"}, ""}, "/bin/zero_launch",
                           {"ZERO_LR=1"}),
              ElementsAre("mpirun", "--quiet", "-n", "2", "--oversubscribe",
                          "/bin/zero_launch", "train", "--out", "a b"));
}

TEST(StartRanks, OtherHostsGetOurVariables) {
  EXPECT_THAT(mpirun_words({4, "hosts.txt", {"train"}, ""}, "zero_launch",
                           {"HOME=/", "ZERO_LR=1"}),
              ElementsAre("mpirun", "--quiet", "-n", "4", "--hostfile", "hosts.txt", "-x",
                          "ZERO_LR", "zero_launch", "train"));
}

TEST(StartRanks, WhatTheUserHasSetStays) {
  EXPECT_THAT(mpirun_variables({}, false), Not(Contains("OMPI_ALLOW_RUN_AS_ROOT=1")));
  EXPECT_THAT(mpirun_variables({}, true), Contains("OMPI_ALLOW_RUN_AS_ROOT=1"));
  EXPECT_THAT(mpirun_variables({"OMPI_ALLOW_RUN_AS_ROOT=1"}, true),
              Not(Contains("OMPI_ALLOW_RUN_AS_ROOT=1")));
}

TEST(StartRanks, TheEnvironmentMayAllowMoreRanksThanSlots) {
  EXPECT_FALSE(may_oversubscribe({"HOME=/"}));
  EXPECT_FALSE(may_oversubscribe({"OMPI_MCA_rmaps_base_oversubscribe=0"}));
  EXPECT_TRUE(may_oversubscribe({"OMPI_MCA_rmaps_base_oversubscribe=1"}));
  EXPECT_TRUE(may_oversubscribe({"OMPI_MCA_rmaps_base_oversubscribe=true"}));
}

TEST(StartRanks, MpirunIsForSeveralHosts) {
  const RanksToStart here{2, "", {}, ""}, elsewhere{2, "hosts.txt", {}, ""};
  EXPECT_FALSE(has_several_hosts(here, {"HOME=/", "SLURM_JOB_NUM_NODES=1"}));
  EXPECT_TRUE(has_several_hosts(elsewhere, {}));
  EXPECT_TRUE(has_several_hosts(here, {"SLURM_JOB_NUM_NODES=2"}));
  EXPECT_TRUE(has_several_hosts(here, {"PBS_NODEFILE=/var/nodes"}));
}

}  // namespace
}  // namespace zero::launcher::start_ranks_test
