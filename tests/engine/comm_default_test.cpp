#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "engine/comm/mpi.h"
#include "engine/comm/started_ranks.h"
#include "zero/errors.h"

namespace zero::comm_default_test {
namespace {

// A process that nobody has announced any ranks to, unless the test does.
class AnnouncedRanksTest : public ::testing::Test {
 protected:
  AnnouncedRanksTest() { forget(); }
  ~AnnouncedRanksTest() override { forget(); }

  static void announce(const char* name, const std::string& text) {
    setenv(name, text.c_str(), 1);
  }

 private:
  static void forget() {
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("SLURM_STEP_NUM_TASKS");
  }
};

TEST_F(AnnouncedRanksTest, AloneThereAreNone) {
  EXPECT_FALSE(announced_ranks());
  EXPECT_EQ(make_ranks()->size(), 1);
}

TEST_F(AnnouncedRanksTest, MpirunAndSrunTellTheirNumber) {
  announce("SLURM_STEP_NUM_TASKS", "12");
  EXPECT_EQ(announced_ranks(), 12);
  announce("OMPI_COMM_WORLD_SIZE", "3");  // mpirun inside a step of srun
  EXPECT_EQ(announced_ranks(), 3);
}

TEST_F(AnnouncedRanksTest, WhatIsNoNumberOfRanksIsRefused) {
  for (const std::string text : {"", "0", "-2", "two", "2x", "2.5", "99999999999"}) {
    announce("OMPI_COMM_WORLD_SIZE", text);
    EXPECT_THROW(announced_ranks(), Error) << text;
  }
}

TEST(StartedRank, IsWhatItsStarterSays) {
  const StarterMemory memory(3, 8192);
  const std::string variable = memory.variable_for(2);
  const std::string text = variable.substr(variable.find('=') + 1);
  EXPECT_FALSE(started_rank(text)) << "this process is the starter, not a child of it";
  std::string of_parent = text;
  const std::string own = std::to_string(getpid());
  of_parent.replace(of_parent.find(own), own.size(), std::to_string(getppid()));
  const auto self = started_rank(of_parent);
  ASSERT_TRUE(self);
  EXPECT_EQ(self->rank, 2);
  EXPECT_EQ(self->size, 3);
  EXPECT_EQ(self->slot_bytes, 8192);
  EXPECT_EQ(self->memory.words[0], getpid());
}

TEST(StartedRank, OtherWordsAreRefused) {
  for (const std::string text : {"", "1", "3 3 1 4096 1 2 3 4", "-1 2 1 4096 1 2 3 4",
                                 "0 2 1 4096 1 2 3 4 5", "0 2 1 0 1 2 3 4", "a"})
    EXPECT_THROW(started_rank(text), Error) << text;
}

}  // namespace
}  // namespace zero::comm_default_test
