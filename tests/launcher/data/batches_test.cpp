#include "launcher/data/batches.h"

#include <gmock/gmock.h>

#include <set>

#include "launcher/data/sampler.h"
#include "launcher/data/token_source.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::batches_test {
namespace {

using ::testing::ElementsAre;

TEST(Batches, MicroBatchesAreDealtOutInTurn) {
  const BatchPlan second_of_two{12, 2, 2, 1};
  EXPECT_EQ(num_passes(second_of_two), 3);
  EXPECT_EQ(first_sample(second_of_two, 0, 0), 2);
  EXPECT_EQ(first_sample(second_of_two, 0, 1), 6);
  EXPECT_EQ(first_sample(second_of_two, 5, 2), 70);
}

// Groups have the micro-batches of their passes one behind the other.
TEST(Batches, GroupsOfRanksHaveNeighbours) {
  const auto firsts = [](int rank) {
    const BatchPlan plan{
        .global_batch = 8, .micro_batch = 1, .ranks = 4, .rank = rank, .group = 2};
    return std::vector{first_sample(plan, 1, 0), first_sample(plan, 1, 1)};
  };
  EXPECT_THAT(firsts(0), ElementsAre(8, 10));
  EXPECT_THAT(firsts(1), ElementsAre(9, 11));
  EXPECT_THAT(firsts(2), ElementsAre(12, 14));
  EXPECT_THAT(firsts(3), ElementsAre(13, 15));
}

TEST(Batches, EverySampleOnceOnAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 4, 6}) {
    std::multiset<int64_t> firsts;
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan{24, 2, ranks, rank};
      for (int64_t pass = 0; pass < num_passes(plan); ++pass)
        firsts.insert(first_sample(plan, 7, pass));
    }
    EXPECT_EQ(firsts.size(), 12u);
    EXPECT_EQ(*firsts.begin(), 7 * 24);
    EXPECT_EQ(*firsts.rbegin(), 8 * 24 - 2);
    EXPECT_EQ(std::set(firsts.begin(), firsts.end()).size(), 12u) << ranks;
  }
}

// With the tests of Sampler, for which a sample is trained on or held out: on 1 and 2
// ranks a run trains on the same ones.
TEST(Batches, OneAndTwoRanksTrainOnTheSameSamplesOfAPart) {
  const TempFolder folder;
  const data::TokenSource source({folder.write("a.txt", std::string(400, 'a'))});
  const data::Split split = data::split_samples(data::count_samples(source, 2), 0.02);
  const data::Sampler sampler(source, 2, {.range = split.trained});
  const auto numbers = [&](int ranks) {
    std::multiset<int64_t> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const BatchPlan plan{8, 2, ranks, rank};
      for (int64_t i = 0; i < num_passes(plan) * 50; ++i) {
        const int64_t first =
            first_sample(plan, i / num_passes(plan), i % num_passes(plan));
        all.insert(sampler.sample_number(first));
        all.insert(sampler.sample_number(first + 1));
      }
    }
    return all;
  };
  EXPECT_EQ(numbers(1), numbers(2));
  EXPECT_EQ(*numbers(2).rbegin(), 195);  // of 200, 4 are held out
}

class BatchesOfText : public ::testing::Test {
 protected:
  TempFolder folder;
  data::TokenSource source{{folder.write("a.txt", "abcdefghijklmnopqrstuvwxyz")}};
  std::unique_ptr<data::Samples> samples = source.samples({2}, {.shuffle = false});
};

TEST_F(BatchesOfText, TargetsAreTheNextTokens) {
  const Batch batch = read_passes(*samples, {4, 2, 1, 0}, 0, 1, 1);
  EXPECT_THAT(batch.inputs, ElementsAre('e', 'f', 'g', 'h'));
  EXPECT_THAT(batch.targets, ElementsAre('f', 'g', 'h', 'i'));
  EXPECT_EQ(batch.num_targets(), 4);
}

TEST_F(BatchesOfText, AllPassesAreThePassesInOrder) {
  const BatchPlan plan{8, 2, 2, 1};
  const Batch all = read_passes(*samples, plan, 0, 0, num_passes(plan));
  EXPECT_EQ(all.rows, 4);
  std::vector<int64_t> joined;
  for (int64_t pass = 0; pass < 2; ++pass) {
    const Batch one = read_passes(*samples, plan, 0, pass, 1);
    joined.insert(joined.end(), one.inputs.begin(), one.inputs.end());
  }
  EXPECT_EQ(all.inputs, joined);
}

TEST_F(BatchesOfText, BehindTheEndRowsAreEmpty) {
  EXPECT_EQ(num_batches(0, 7, 4), 2);
  EXPECT_EQ(num_batches(3, 7, 4), 1);
  const auto targets = [&](int rank) {
    return read_passes(
               *samples,
               {.global_batch = 4, .micro_batch = 2, .ranks = 2, .rank = rank, .end = 7},
               1, 0, 1)
        .targets;
  };
  EXPECT_THAT(targets(0), ElementsAre('j', 'k', 'l', 'm'));
  EXPECT_THAT(targets(1), ElementsAre('n', 'o', -1, -1));
}

TEST(Batches, EmptyRowsCountForNothing) {
  EXPECT_EQ(data::empty_batch(2, 3).num_targets(), 0);
}

}  // namespace
}  // namespace zero::launcher::batches_test
