// `train --ranks N`: ranks of this host are processes of the program, without MPI; those
// of several hosts have an mpirun of its own, which a person never meets.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::ranks_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class OwnRanks : public Scenario {
 protected:
  std::unique_ptr<Program> start_endless(const Words& more = {}) {
    Words flags = {"--steps=1000000", "--delay=adam=5", "--ranks=2"};
    flags.insert(flags.end(), more.begin(), more.end());
    return start(0, train("a", flags));
  }

  // By this program, and by its mpirun.
  std::vector<Words> ways_to_start() const {
    return {{}, {"--hosts", write("hosts", "localhost slots=2\n")}};
  }

  static bool begins(const Program& program) {
    return wait_until(
        [&] { return program.out_so_far().find("fresh start") != std::string::npos; });
  }

  size_t num_checkpoints() const { return has("a") ? checkpoints("a").size() : 0; }

  static bool says_mpirun(const Outcome& outcome) {
    return (outcome.out + outcome.err).find("mpirun") != std::string::npos ||
           outcome.err.find("-----") != std::string::npos;
  }
};

TEST_F(OwnRanks, TrainAsUnderMpirun) {
  EXPECT_EQ(run(2, train("a", {"--steps=4", "--dump-state", path("a_state")})).rc, 0);
  const Outcome outcome =
      run(0, train("b", {"--steps=4", "--ranks=2", "--dump-state", path("b_state")}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 with"));
  expect_same(read_state(path("a_state")), read_state(path("b_state")));
}

TEST_F(OwnRanks, ACallerThatIgnoresItsChildrenDoesNoHarm) {
  Words words = verb("doctor", {});
  words.insert(words.begin(), {"env", "--ignore-signal=CHLD"});
  EXPECT_THAT(run(0, words).out, HasSubstr("hello from 2 ranks"));
}

TEST_F(OwnRanks, MoreThanCoresAreStarted) {
  const Outcome outcome = run(0, train("a", {"--steps=1", "--ranks=4"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_TRUE(has("a/step_000000000001"));
}

TEST_F(OwnRanks, CtrlCSavesAndStops) {
  auto program = start_endless();
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  program->send(SIGINT);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 75) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("once more leaves at once"));
  EXPECT_FALSE(says_mpirun(outcome)) << outcome.err;
  const int64_t last = last_of(steps("a"));
  EXPECT_THAT(outcome.out, HasSubstr("saved step " + std::to_string(last)));
  const std::string more = "--steps=" + std::to_string(last + 2);
  EXPECT_EQ(run(0, train("a", {more, "--ranks=2", "--dump-state", path("a_state")})).rc,
            0);
  EXPECT_EQ(run(2, train("b", {more, "--dump-state", path("b_state")})).rc, 0);
  expect_same(read_state(path("b_state")), read_state(path("a_state")));
}

TEST_F(OwnRanks, AClosedTerminalSavesAndStops) {
  auto program = start_endless();
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  program->send(SIGHUP);
  EXPECT_EQ(program->wait().rc, 75);
  EXPECT_EQ(num_checkpoints(), 1u);
}

TEST_F(OwnRanks, CtrlCTwiceLeaves) {
  auto program = start_endless({"--delay=adam=4000"});
  ASSERT_TRUE(begins(*program));
  program->send(SIGINT);
  for (int i = 0; i < 40; ++i) pause_a_little();
  program->send(SIGINT);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 130);
  EXPECT_TRUE(wait_until([&] { return pids_with(path("a")).empty(); }));
}

// Whatever is under way, and whoever has started the ranks.
TEST_F(OwnRanks, CtrlCTwiceLeavesNoProcessAndNoFile) {
  for (Words flags : ways_to_start()) {
    const bool is_here = flags.empty();
    flags.push_back("--delay=adam=60000");
    auto program = start_endless(flags);
    ASSERT_TRUE(begins(*program));
    program->send(SIGTERM);
    ASSERT_TRUE(is_here || wait_until([&] { return has("a/STOP"); }));
    for (int i = 0; i < 40; ++i) pause_a_little();
    program->send(SIGTERM);
    EXPECT_EQ(program->wait().rc, 130);
    EXPECT_THAT(pids_with(path("a")), ::testing::IsEmpty());
    EXPECT_FALSE(has("a/STOP"));
  }
}

TEST_F(OwnRanks, OfOneHostOpenNoPortAndLoadNoMpi) {
  auto program = start_endless();
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  EXPECT_THAT(open_ports_of(path("a")), ::testing::IsEmpty());
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t pid = pid_of_rank(rank, path("a"));
    ASSERT_GT(pid, 0);
    const std::string maps = read_file("/proc/" + std::to_string(pid) + "/maps");
    EXPECT_FALSE(maps.empty());
    EXPECT_EQ(maps.find("libmpi"), maps.npos);
  }
  program->send(SIGINT);
  EXPECT_EQ(program->wait().rc, 75);
}

TEST_F(OwnRanks, KeepFewKernelsOfShapesThatTheyMet) {
  auto program = start_endless({});
  ASSERT_TRUE(wait_for_step("a", 1)) << program->out_so_far();
  for (const int rank : {0, 1}) {
    const pid_t pid = pid_of_rank(rank, path("a"));
    ASSERT_GT(pid, 0);
    EXPECT_EQ(variable_of(pid, "LRU_CACHE_CAPACITY"), "128");
    EXPECT_EQ(variable_of(pid, "ONEDNN_PRIMITIVE_CACHE_CAPACITY"), "128");
  }
}

// As schedulers do; a step takes longer than an mpirun of one's own would wait.
TEST_F(OwnRanks, TermToEveryProcessSavesAndStops) {
  for (Words flags : ways_to_start()) {
    flags.push_back("--delay=adam=1500");
    auto program = start_endless(flags);
    ASSERT_TRUE(wait_for_step("a", 1)) << program->out_so_far();
    for (const pid_t pid : pids_with(path("a"))) kill(pid, SIGTERM);
    const Outcome outcome = program->wait();
    EXPECT_EQ(outcome.rc, 75) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, Not(HasSubstr("lost"))) << "this mpirun waits";
    EXPECT_EQ(num_checkpoints(), 1u);
    fs::remove_all(path("a"));
  }
}

// At any moment from the first on.
TEST_F(OwnRanks, CtrlCBeforeTheFirstStepLosesNothing) {
  for (int pauses = 0; pauses < 60; pauses += 12) {
    auto program = start_endless();
    for (int i = 0; i < pauses; ++i) pause_a_little();
    program->send(SIGINT);
    const Outcome outcome = program->wait();
    EXPECT_FALSE(outcome.is_late);
    if (outcome.rc == 75) {
      ASSERT_GE(num_checkpoints(), 1u);
      const std::string last = std::to_string(last_of(steps("a")));
      EXPECT_THAT(last_of(checkpoints("a")), ::testing::EndsWith(last));
    } else {
      EXPECT_EQ(outcome.rc, 130) << outcome.err;
      EXPECT_TRUE(outcome.err.empty() ||
                  outcome.err.find("nothing was lost") != std::string::npos)
          << outcome.err;
    }
    EXPECT_TRUE(wait_until([&] { return pids_with(path("a")).empty(); }));
  }
}

TEST_F(OwnRanks, AKilledStarterEndsItsRanks) {
  auto program = start_endless();
  ASSERT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
  program->send(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return pids_with(path("a")).empty(); }));
  EXPECT_THAT(checkpoints("a"), SizeIs(1)) << "they saved first";
}

TEST_F(OwnRanks, AKilledRankEndsTheRun) {
  auto program = start_endless({"--save-every=2"});
  ASSERT_TRUE(wait_until([&] { return !metrics("a", "save").empty(); }));
  kill(pid_of_rank(1, path("a")), SIGKILL);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 137);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(outcome.err, HasSubstr("was ended by signal 9 (Killed)"));
  EXPECT_THAT(outcome.err, HasSubstr("goes on from the last checkpoint"));
  const std::string more = "--steps=" + std::to_string(last_of(steps("a")) + 2);
  const Outcome again = run(0, train("a", {more, "--ranks=2"}));
  EXPECT_EQ(again.rc, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("resumed step"));
}

TEST_F(OwnRanks, ErrorsAreToldOnceAndKeepTheirCode) {
  const Outcome usage = run(0, train("a", {"--steps=4", "--ranks=2", "--lr=-1"}));
  EXPECT_EQ(usage.rc, 2);
  EXPECT_FALSE(says_mpirun(usage)) << usage.err;
  const Outcome batch = run(0, train("a", {"--steps=4", "--ranks=3"}));
  EXPECT_EQ(batch.rc, 2);
  EXPECT_THAT(batch.err, HasSubstr("x 3 ranks = 6"));
  write("file", "x");
  const Outcome folder = run(0, train("file/a", {"--steps=4", "--ranks=2"}));
  EXPECT_EQ(folder.rc, 5) << folder.err;
  EXPECT_FALSE(says_mpirun(folder)) << folder.err;
}

TEST_F(OwnRanks, HostsThatCannotBeUsedAreTold) {
  const std::string hosts = write("hosts", "localhost slots=1\n");
  const Outcome few = run(0, train("a", {"--steps=2", "--ranks=2", "--hosts", hosts}),
                          {"OMPI_MCA_rmaps_base_oversubscribe=0"});
  EXPECT_EQ(few.rc, 3);
  EXPECT_THAT(few.err, HasSubstr("mpirun -n 2 --hostfile " + hosts + " true tells why"));
  const Outcome none = run(0, train("a", {"--steps=2", "--ranks=2", "--hosts=nofile"}));
  EXPECT_EQ(none.rc, 2);
  EXPECT_THAT(none.err, HasSubstr("no such file"));
  EXPECT_EQ(run(0, train("a", {"--steps=2", "--hosts", hosts})).rc, 2);
  const std::string far = write("far", "localhost slots=1\nnohost.invalid slots=1\n");
  const Outcome nowhere = run(0, train("a", {"--steps=2", "--ranks=2", "--hosts", far}));
  EXPECT_EQ(nowhere.rc, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("nohost.invalid: its name leads nowhere"));
  EXPECT_EQ(run(0, verb("doctor", {"--hosts", far})).rc, 3);
  EXPECT_THAT(run(0, verb("doctor", {"--hosts", hosts})).out, HasSubstr("is this host"));
  EXPECT_FALSE(has("a"));
}

TEST_F(OwnRanks, UnderMpirunTheNumbersMustAgree) {
  const Outcome outcome = run(2, train("a", {"--steps=4", "--ranks=3"}));
  EXPECT_EQ(outcome.rc, 2);
  EXPECT_EQ(run(2, train("a", {"--steps=4", "--ranks=2"})).rc, 0);
}

TEST_F(OwnRanks, OthersVerbsToo) {
  EXPECT_EQ(run(0, train("a", {"--steps=2", "--ranks=2"})).rc, 0);
  const Words eval = verb("eval", {"--from", path("a"), "--data", path("data.txt")});
  Words two = eval;
  two.push_back("--ranks=2");
  EXPECT_EQ(run(0, eval).out, run(0, two).out);
}

}  // namespace
}  // namespace zero::scenarios::ranks_test
