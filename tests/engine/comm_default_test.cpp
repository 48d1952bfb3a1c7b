#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "engine/comm/mpi_ranks.h"
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

}  // namespace
}  // namespace zero::comm_default_test
