#include "offload/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

namespace zero::affinity_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

TEST(AffinityTest, CpusAreWrittenAsRanges) {
  EXPECT_EQ(format_cpus({0, 1, 2, 5}), "0-2,5");
  EXPECT_EQ(format_cpus({7}), "7");
  EXPECT_EQ(format_cpus({5, 4, 9, 0, 10}), "0,4-5,9-10");
  EXPECT_EQ(format_cpus({}), "");
}

TEST(FairShareTest, CutsIntoNeighbours) {
  const std::vector<int> cpus{0, 1, 2, 3, 8, 9, 10, 11};
  EXPECT_THAT(fair_share(cpus, 0, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(fair_share(cpus, 1, 2), ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(fair_share(cpus, 0, 1), cpus);
}

TEST(FairShareTest, KeepsTheOrderItIsGiven) {
  EXPECT_THAT(fair_share({0, 4, 1, 5}, 0, 2), ElementsAre(0, 4));
  EXPECT_THAT(fair_share({0, 4, 1, 5}, 1, 2), ElementsAre(1, 5));
}

TEST(FairShareTest, CoversEveryCpuOnceAndIsBalanced) {
  for (int num_cpus = 1; num_cpus <= 17; ++num_cpus) {
    std::vector<int> cpus(num_cpus);
    std::iota(cpus.begin(), cpus.end(), 100);
    for (int local_size = 1; local_size <= num_cpus; ++local_size) {
      std::vector<int> all;
      for (int rank = 0; rank < local_size; ++rank) {
        const std::vector<int> share = fair_share(cpus, rank, local_size);
        EXPECT_GE(static_cast<int>(share.size()), num_cpus / local_size);
        EXPECT_LE(static_cast<int>(share.size()),
                  (num_cpus + local_size - 1) / local_size);
        all.insert(all.end(), share.begin(), share.end());
      }
      EXPECT_EQ(all, cpus) << num_cpus << " cpus, " << local_size << " ranks";
    }
  }
}

TEST(FairShareTest, MoreRanksThanCpusShare) {
  EXPECT_THAT(fair_share({3, 7}, 0, 4), ElementsAre(3));
  EXPECT_THAT(fair_share({3, 7}, 1, 4), ElementsAre(3));
  EXPECT_THAT(fair_share({3, 7}, 2, 4), ElementsAre(7));
  EXPECT_THAT(fair_share({3, 7}, 3, 4), ElementsAre(7));
}

TEST(FairShareTest, WrongInputThrows) {
  EXPECT_THROW(fair_share({}, 0, 1), std::invalid_argument);
  EXPECT_THROW(fair_share({0}, 1, 1), std::invalid_argument);
  EXPECT_THROW(fair_share({0}, -1, 1), std::invalid_argument);
  EXPECT_THROW(fair_share({0}, 0, 0), std::invalid_argument);
}

class BindTest : public ::testing::Test {
 protected:
  ~BindTest() override { bind_process(cpus); }

  const std::vector<int> cpus = current_affinity();
};

TEST_F(BindTest, BindingHoldsAndCanBeWidenedAgain) {
  bind_process({cpus.back()});
  EXPECT_THAT(current_affinity(), ElementsAre(cpus.back()));
  bind_process(cpus);
  EXPECT_EQ(current_affinity(), cpus);
}

TEST_F(BindTest, TheWidestAffinityIsSeenFromANarrowOne) {
  bind_process({cpus.front()});
  EXPECT_THAT(cpus, IsSubsetOf(widest_affinity()));
  EXPECT_THAT(current_affinity(), ElementsAre(cpus.front()))
      << "looking must change nothing";
}

TEST_F(BindTest, ForbiddenCpusAreRefusedAndNothingChanges) {
  for (const int bad : {-1, 8191, 100000}) {
    std::string text;
    try {
      bind_process({cpus.front(), bad});
    } catch (const std::runtime_error& error) {
      text = error.what();
    }
    EXPECT_THAT(text, HasSubstr(std::to_string(bad)));
    EXPECT_THAT(text,
                HasSubstr("allowed are \"" + format_cpus(widest_affinity()) + "\""));
    EXPECT_EQ(current_affinity(), cpus);
  }
  EXPECT_THROW(bind_process({}), std::runtime_error);
}

}  // namespace
}  // namespace zero::affinity_test
