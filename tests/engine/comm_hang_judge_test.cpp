#include <gmock/gmock.h>

#include "engine/comm/hang_judge.h"

namespace zero::comm_hang_judge_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kCall = 7;
const HangLimits kLimits{.notice = 30, .give_up = 600};

// Rank 0 of three, waiting; each second the others say what the test lets them say.
class HangJudgeTest : public ::testing::Test {
 protected:
  // Both keep working unless a test says otherwise.
  void pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      judge.pass(1, call);
      for (const int peer : {1, 2}) {
        if (works[peer]) ++word[peer].signs;
        if (answers[peer]) judge.hear(peer, word[peer]);
      }
      const std::vector<int> now = judge.to_name();
      named.insert(named.end(), now.begin(), now.end());
    }
  }

  HangJudge judge{0, 3, kLimits};
  uint64_t call = kCall;
  bool works[3] = {true, true, true}, answers[3] = {true, true, true};
  RankWord word[3];
  std::vector<int> named;
};

TEST_F(HangJudgeTest, ARankThatDoesNotAnswerIsNamedAfterHalfAMinute) {
  answers[1] = false;
  pass(30);
  EXPECT_THAT(named, IsEmpty());
  pass(2);
  EXPECT_THAT(named, ElementsAre(1));
  pass(100);
  EXPECT_THAT(named, ElementsAre(1)) << "named once";
  EXPECT_FALSE(judge.hears(1));
  EXPECT_FALSE(judge.gives_up());
  pass(500);
  EXPECT_TRUE(judge.gives_up());
}

TEST_F(HangJudgeTest, ARankThatAnswersAndDoesNothingIsNamed) {
  works[2] = false;
  pass(33);
  EXPECT_THAT(named, ElementsAre(2));
  EXPECT_TRUE(judge.hears(2));
}

TEST_F(HangJudgeTest, SignsOfWorkKeepTheClocksAtZero) {
  works[1] = false;
  for (int minute = 0; minute < 60; ++minute) {
    pass(29);
    works[1] = true;  // one MiB of a long save
    pass(1);
    works[1] = false;
  }
  EXPECT_THAT(named, IsEmpty());
  EXPECT_FALSE(judge.gives_up());
}

TEST_F(HangJudgeTest, AnAnswerCountsForThreeSeconds) {
  pass(5);
  answers[1] = false;
  pass(2);
  EXPECT_TRUE(judge.hears(1));
  pass(1);
  EXPECT_FALSE(judge.hears(1));
}

TEST_F(HangJudgeTest, APauseIsNoHang) {
  answers[1] = works[1] = false;
  pass(5);
  answers[1] = works[1] = true;
  pass(100);
  EXPECT_THAT(named, IsEmpty());
}

TEST_F(HangJudgeTest, OneWhoWaitsAsWellIsNotTheCulprit) {
  word[1].is_waiting = true;
  works[1] = works[2] = false;
  answers[2] = false;
  pass(40);
  EXPECT_THAT(named, ElementsAre(2));
}

TEST_F(HangJudgeTest, WhoBeginsToWaitOrEndsItEndsItsSilence) {
  works[1] = works[2] = false;
  word[2].is_waiting = true;
  pass(25);
  word[1].is_waiting = true;  // without a sign of work
  pass(25);
  EXPECT_THAT(named, IsEmpty()) << "all wait, rank 1 since 25 s";
  word[1].is_waiting = false;
  pass(25);
  EXPECT_THAT(named, IsEmpty()) << "rank 1 went on 25 s ago";
  pass(10);
  EXPECT_THAT(named, ElementsAre(1));
}

TEST_F(HangJudgeTest, WhereAllWaitAllAreNamed) {
  word[1].is_waiting = word[2].is_waiting = true;
  works[1] = works[2] = false;
  pass(40);
  EXPECT_THAT(named, ElementsAre(0, 1, 2));
}

TEST_F(HangJudgeTest, ANewCollectiveIsANewWait) {
  answers[1] = works[1] = false;
  for (int i = 0; i < 10; ++i) {
    ++call;
    pass(25);
  }
  EXPECT_THAT(named, IsEmpty());
  call = 0;  // in none
  pass(100);
  EXPECT_THAT(named, IsEmpty());
  EXPECT_FALSE(judge.asks());
}

TEST_F(HangJudgeTest, OnlyTheLowestOfThoseThatWaitNames) {
  HangJudge second(1, 3, kLimits);
  std::vector<int> by_second;
  for (int i = 0; i < 40; ++i) {
    second.pass(1, kCall);
    second.hear(0, {1, true, ""});
    const std::vector<int> now = second.to_name();
    by_second.insert(by_second.end(), now.begin(), now.end());
  }
  EXPECT_THAT(by_second, IsEmpty()) << "rank 0 waits and says it";
  HangJudge alone(1, 3, kLimits);
  for (int i = 0; i < 40; ++i) {
    alone.pass(1, kCall);
    alone.hear(2, {1, true, ""});
    const std::vector<int> now = alone.to_name();
    by_second.insert(by_second.end(), now.begin(), now.end());
  }
  EXPECT_THAT(by_second, ElementsAre(0));
}

// It waited before it died.
TEST_F(HangJudgeTest, ARankThatDiedNamesNobody) {
  HangJudge second(1, 3, kLimits);
  std::vector<int> by_second;
  for (int i = 0; i < 40; ++i) {
    second.pass(1, kCall);
    if (i == 0) second.hear(0, {1, true, ""});
    second.hear(2, {1, true, ""});
    const std::vector<int> now = second.to_name();
    by_second.insert(by_second.end(), now.begin(), now.end());
  }
  EXPECT_THAT(by_second, ElementsAre(0));
}

TEST_F(HangJudgeTest, AProcessThatWasStoppedHasNotWaited) {
  pass(1);
  for (int i = 0; i < 29; ++i) judge.pass(3600, kCall);
  EXPECT_THAT(judge.to_name(), IsEmpty());
  EXPECT_FALSE(judge.gives_up());
}

TEST(HangLimits, ZeroNeverGivesUp) {
  HangJudge judge(0, 2, {.notice = 30, .give_up = 0});
  for (int i = 0; i < 100000; ++i) judge.pass(1, kCall);
  EXPECT_THAT(judge.to_name(), ElementsAre(1));
  EXPECT_FALSE(judge.gives_up());
}

}  // namespace
}  // namespace zero::comm_hang_judge_test
