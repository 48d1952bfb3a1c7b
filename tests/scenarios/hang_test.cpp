// A rank that does not answer is named, and nobody waits for ever.
#include <csignal>
#include <thread>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::hang_test {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Hang : public Scenario {
 protected:
  std::unique_ptr<Program> start_endless(const Words& more) {
    Words flags = {"--steps=1000000", "--delay=adam=5", "--ranks=2"};
    flags.insert(flags.end(), more.begin(), more.end());
    return start(0, train("a", flags));
  }

  pid_t rank_1() const { return pid_of_rank(1, path("a")); }

  // `words`, with a variable in rank 1 alone.
  static Words in_rank_1(const std::string& variable, const Words& words) {
    Words all = {"bash", "-c",
                 "[ $OMPI_COMM_WORLD_RANK != 1 ] || export " + variable + "; exec \"$@\"",
                 "bash"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
};

TEST_F(Hang, SomebodyStopsARankAndForgetsIt) {
  const auto program = start_endless({"--hang-timeout=6s"});
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  const pid_t stopped = rank_1();
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 86) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("pid " + std::to_string(stopped) + ", stopped)"));
  EXPECT_THAT(outcome.err, HasSubstr("does not answer; rank 0 waits in "));
  EXPECT_THAT(outcome.err, HasSubstr("gives up, in "));
  EXPECT_FALSE(outcome.is_late);
}

TEST_F(Hang, ByDefaultItIsNamedAfterHalfAMinuteAndMayComeBack) {
  const auto program = start_endless({});
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  const pid_t stopped = rank_1();
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  EXPECT_TRUE(wait_until([&] { return !program->err_so_far().empty(); }, 60s));
  const auto waited = std::chrono::steady_clock::now() - begin;
  EXPECT_THAT(program->err_so_far(), HasSubstr("rank 1 ("));
  EXPECT_GT(waited, 29s);  // some 32s on an idle machine
  kill(stopped, SIGCONT);
  program->send(SIGINT);
  EXPECT_EQ(program->wait().rc, 75);
}

TEST_F(Hang, APauseIsNoAlarm) {
  const auto program = start_endless({"--hang-timeout=20s"});
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  ASSERT_EQ(kill(rank_1(), SIGSTOP), 0);
  std::this_thread::sleep_for(5s);
  kill(rank_1(), SIGCONT);
  const int64_t step = last_of(steps("a"));
  ASSERT_TRUE(wait_for_step("a", step + 5));
  program->send(SIGINT);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 75);
  EXPECT_THAT(outcome.err, Not(AnyOf(HasSubstr("answer"), HasSubstr("gives"))));
}

TEST_F(Hang, ARankThatIsBusyElsewhereIsNamedWithItsPlace) {
  const Words words = train("a", {"--steps=3", "--hang-timeout=6s"});
  const Outcome outcome = run(2, in_rank_1("ZERO_DELAY=backward=120000", words));
  EXPECT_EQ(outcome.rc, 86) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("gives no sign of work, in backward; rank 0 waits"));
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 (host "));
  EXPECT_THAT(outcome.err, Not(ContainsRegex("rank 0 \\([^)]*\\) gives no sign")));
}

// Rank 0 waits for the sums of the other group: each rank is one.
TEST_F(Hang, ARankOfAnotherGroupIsNamed) {
  const Words words = train("a", {"--steps=3", "--hang-timeout=6s", "--shard-over=1"});
  const Outcome outcome = run(2, in_rank_1("ZERO_DELAY=backward=120000", words));
  EXPECT_EQ(outcome.rc, 86) << outcome.err;
  EXPECT_THAT(outcome.err,
              ContainsRegex("rank 1 \\([^)]*\\) gives no sign of work, in backward"));
}

TEST_F(Hang, RanksThatDoNotFindEachOtherSayWhatTheyWaitFor) {
  Words words = {"bash", "-c", "[ $OMPI_COMM_WORLD_RANK != 1 ] || sleep 17; exec \"$@\"",
                 "bash"};
  const Words train_words = train("a", {"--steps=1"});
  words.insert(words.end(), train_words.begin(), train_words.end());
  const Outcome outcome = run(2, words);
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("waiting for 2 ranks to find each other, 15 s"));
}

TEST_F(Hang, SlowWorkThatSignsIsNone) {
  // The passes of rank 1 take longer than anybody may be silent, each of them does not.
  const Words words =
      train("a", {"--steps=1", "--hang-timeout=5s", "--accumulate=model"});
  const Outcome outcome = run(2, in_rank_1("ZERO_DELAY=backward=2000,adam=2000", words));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("gives no sign")));
}

// One of each kind: the engine's, the launcher's, a place that is given or not; and two
// that a host may have of its own.
TEST_F(Hang, AnotherConfigurationOnOneRankIsRefusedBeforeAStep) {
  const Outcome outcome =
      run(2, in_rank_1("ZERO_LR=0.5 ZERO_SHUFFLE=false ZERO_DROPOUT=0.3 "
                       "ZERO_SAVE_AT_END=false ZERO_CHAOS=1 ZERO_BIND=false "
                       "ZERO_EVAL_DATA=" +
                           path("data.txt"),
                       train("a", {"--steps=2"})));
  EXPECT_EQ(outcome.rc, 87) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("different settings: dropout (rank 1), eval_data (rank 1), lr "
                        "(rank 1), save_at_end (rank 1), shuffle (rank 1)\n"));
  EXPECT_FALSE(has("a"));
}

}  // namespace
}  // namespace zero::scenarios::hang_test
