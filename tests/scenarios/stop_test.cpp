// Every way to stop a run saves it first, and the same command goes on.
#include <algorithm>
#include <bit>
#include <csignal>
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::stop_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Steps of a few milliseconds, more than anyone waits for.
const Words kEndless = {"--steps=1000000", "--delay=adam=5"};

// Of a job on another host.
const char* const kFarLock =
    R"({"host":"far","machine_id":"m","boot_id":"b","pid_namespace":"n","pid":1,)"
    R"("pid_start":1,"job_id":"7","heartbeat":1,"holds_file":true})";

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Has this process a handler for the signal?
bool catches(pid_t pid, int signal) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status"),
                    field = "SigCgt:";
  const size_t found = status.find(field);
  return found != status.npos &&
         std::stoull(status.substr(found + field.size()), nullptr, 16) >> (signal - 1) &
             1;
}

class Stopping : public Scenario {
 protected:
  std::unique_ptr<Program> start_endless(int ranks, const Words& flags = {}) {
    auto program = start(ranks, train("a", kEndless + flags));
    EXPECT_TRUE(wait_for_step("a", 3)) << program->out_so_far();
    return program;
  }

  // The run has saved its last step, and goes on from there as if it had never stopped.
  void expect_stopped_and_resumable(const Outcome& outcome, int ranks) {
    EXPECT_EQ(outcome.rc, 75) << outcome.out << outcome.err;
    const int64_t last = last_of(steps("a"));
    EXPECT_THAT(outcome.out, HasSubstr("saved step " + std::to_string(last)));
    EXPECT_THAT(checkpoints("a"), SizeIs(1));
    const std::string more = "--steps=" + std::to_string(last + 2);
    EXPECT_EQ(run(ranks, train("a", {more, "--dump-state", path("a_state")})).rc, 0);
    EXPECT_EQ(run(ranks, train("b", {more, "--dump-state", path("b_state")})).rc, 0);
    expect_same(read_state(path("b_state")), read_state(path("a_state")));
    EXPECT_EQ(steps("a"), steps("b"));
    EXPECT_THAT(metrics("a", "stop"), SizeIs(1));
  }
};

TEST_F(Stopping, Usr1ToMpirun) {
  auto program = start_endless(2);
  EXPECT_THAT(program->out_so_far(),
              HasSubstr("kill -USR1 " + std::to_string(program->pid())));
  program->send(SIGUSR1);
  expect_stopped_and_resumable(program->wait(), 2);
}

TEST_F(Stopping, Usr1ToOneProcess) {
  auto program = start_endless(0);
  EXPECT_THAT(program->out_so_far(),
              HasSubstr("kill -USR1 " + std::to_string(program->pid())));
  program->send(SIGUSR1);
  expect_stopped_and_resumable(program->wait(), 0);
}

TEST_F(Stopping, TermToOneProcess) {
  auto program = start_endless(0);
  program->send(SIGTERM);
  expect_stopped_and_resumable(program->wait(), 0);
}

TEST_F(Stopping, TermTwiceAtOnceIsOneRequest) {
  auto program = start_endless(0);
  program->send(SIGTERM);
  pause_a_little();
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().rc, 75);
}

TEST_F(Stopping, TheFileStopIsHonouredAndRemoved) {
  auto program = start_endless(2);
  write("a/STOP", "");
  expect_stopped_and_resumable(program->wait(), 2);
  EXPECT_FALSE(has("a/STOP"));
}

TEST_F(Stopping, TheTimeLimit) {
  const Outcome outcome =
      run(2, train("a", kEndless + Words{"--time-limit=00:00:03", "--no-save-at-end"}));
  EXPECT_THAT(outcome.out, HasSubstr("stopped by the time limit"));
  const double begin = metrics("a", "run")[0]["wall"],
               end = metrics("a", "stop")[0]["wall"];
  EXPECT_LT(end - begin, 3);
  expect_stopped_and_resumable(outcome, 2);
}

TEST_F(Stopping, ASecondSignalLeavesAtOnce) {
  auto program = start(0, train("a", {"--steps=1000000", "--delay=adam=4000"}));
  ASSERT_TRUE(wait_until(
      [&] { return program->out_so_far().find("fresh start") != std::string::npos; }));
  program->send(SIGINT);
  for (int i = 0; i < 40; ++i)
    pause_a_little();  // a moment longer than a duplicate takes
  program->send(SIGINT);
  const Outcome outcome = program->wait(std::chrono::seconds(2));
  EXPECT_FALSE(outcome.is_late);
  EXPECT_EQ(outcome.rc, 130);
  EXPECT_THAT(checkpoints("a"), IsEmpty());
  EXPECT_EQ(run(0, train("a", {"--steps=2"})).rc, 0);
}

// The system takes a third of a second to load LibTorch.
TEST_F(Stopping, WhileTheProgramIsLoaded) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    auto program = start(0, train("a", kEndless));
    ASSERT_TRUE(wait_until([&] { return catches(program->pid(), signal); }));
    program->send(signal);
    const Outcome outcome = program->wait();
    EXPECT_EQ(outcome.rc, 130);
    EXPECT_EQ(outcome.err, "zero: stopped: nothing was lost\n");
    EXPECT_FALSE(has("a"));
  }
}

TEST_F(Stopping, AGenerationLosesNothing) {
  EXPECT_EQ(run(0, train("a", {"--steps=2"})).rc, 0);
  auto program =
      start(0, verb("generate", {"--from", path("a"), "--sample=a", "--sample-tokens=15",
                                 "--sample-ignore-eos", "--delay=forward=1000"}));
  for (int i = 0; i < 40; ++i) pause_a_little();
  program->send(SIGINT);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 130);
  EXPECT_EQ(outcome.err, "zero: stopped: nothing was lost\n");
}

// An evaluation of many seconds.
TEST_F(Stopping, AnEvaluationIsLeftAtOnce) {
  std::string text;
  for (int i = 0; i < 60000; ++i) text += "some text ";
  const Words flags = {"--eval-every=2", "--eval-samples=0", "--eval-data",
                       write("eval.txt", text)};
  auto program = start(2, train("a", Words{"--steps=1000000"} + flags));
  ASSERT_TRUE(wait_for_step("a", 2));
  program->send(SIGUSR1);
  const Outcome outcome = program->wait(std::chrono::seconds(15));
  EXPECT_FALSE(outcome.is_late);
  EXPECT_EQ(outcome.rc, 75) << outcome.err;
  EXPECT_EQ(checkpoints("a").size(), 1u);
  EXPECT_THAT(metrics("a", "eval"), IsEmpty());
}

TEST_F(Stopping, AStopInTheLastStepIsNone) {
  run(0, train("a", {"--steps=2"}));
  write("a/STOP", "");
  EXPECT_EQ(run(0, train("a", {"--steps=3"})).rc, 0);
  EXPECT_FALSE(has("a/STOP"));
}

TEST_F(Stopping, NothingIsSavedTwice) {
  auto program = start_endless(0, {"--save-every=1"});
  program->send(SIGUSR1);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 75);
  const auto saves = metrics("a", "save");
  ASSERT_FALSE(saves.empty());
  for (size_t i = 1; i < saves.size(); ++i)
    EXPECT_NE(saves[i]["step"], saves[i - 1]["step"]);
}

TEST_F(Stopping, AKilledRankEndsAllAndTheRunGoesOn) {
  auto program = start_endless(2, {"--save-every=2"});
  ASSERT_TRUE(wait_until([&] { return !metrics("a", "save").empty(); }));
  kill(pid_of_rank(1, path("a")), SIGKILL);
  const Outcome outcome = program->wait(std::chrono::seconds(10));
  EXPECT_FALSE(outcome.is_late);
  EXPECT_NE(outcome.rc, 0);
  EXPECT_TRUE(
      wait_until([&] { return pids_with(path("a")).empty(); }, std::chrono::seconds(5)));
  const std::string more = "--steps=" + std::to_string(last_of(steps("a")) + 3);
  const Outcome again = run(2, train("a", {more, "--dump-state", path("a_state")}));
  EXPECT_EQ(again.rc, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("resumed step"));
  EXPECT_EQ(run(2, train("b", {more, "--dump-state", path("b_state")})).rc, 0);
  expect_same(read_state(path("b_state")), read_state(path("a_state")));
}

// mpirun gives its ranks a second, which may not do: what was there must stay whole.
TEST_F(Stopping, TermToMpirunLeavesAWholeCheckpoint) {
  auto program = start_endless(2, {"--save-every=3"});
  ASSERT_TRUE(wait_until([&] { return !metrics("a", "save").empty(); }));
  program->send(SIGTERM);
  EXPECT_NE(program->wait(std::chrono::seconds(10)).rc, 0);
  const std::string more = "--steps=" + std::to_string(last_of(steps("a")) + 3);
  const Outcome again = run(2, train("a", {more}));
  EXPECT_EQ(again.rc, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("resumed step"));
  EXPECT_THAT(again.err, Not(HasSubstr("passed over")));
}

TEST_F(Stopping, AStoppedProcessKeepsItsLock) {
  auto program = start_endless(0);
  program->send(SIGSTOP);
  const Outcome second = run(0, train("a", {"--steps=5", "--take-over"}));
  EXPECT_EQ(second.rc, 5);
  EXPECT_THAT(second.err,
              HasSubstr("it is alive: stop it (kill " + std::to_string(program->pid())));
  program->send(SIGCONT);
  program->send(SIGUSR1);
  EXPECT_EQ(program->wait().rc, 75);
}

TEST_F(Stopping, ALockFromAnotherHostIsTakenWhenOneSaysSo) {
  EXPECT_EQ(run(0, train("a", {"--steps=2"})).rc, 0);
  write("a/run.lock", kFarLock);
  const Outcome refused = run(0, train("a", {"--steps=3"}));
  EXPECT_EQ(refused.rc, 5);
  EXPECT_THAT(refused.err, HasSubstr("process 1 on far, job 7"));
  EXPECT_THAT(refused.err, HasSubstr("the same command with --take-over"));
  const Outcome taken = run(0, train("a", {"--steps=3", "--take-over"}));
  EXPECT_EQ(taken.rc, 0) << taken.err;
  EXPECT_FALSE(has("a/run.lock"));
}

TEST_F(Stopping, ARequeuedJobTakesItsOwnLock) {
  EXPECT_EQ(run(0, train("a", {"--steps=2"})).rc, 0);
  write("a/run.lock", kFarLock);
  EXPECT_EQ(run(0, train("a", {"--steps=3"}), {"SLURM_JOB_ID=8"}).rc, 5);
  EXPECT_EQ(run(0, train("a", {"--steps=3"}), {"SLURM_JOB_ID=7"}).rc, 0);
}

TEST_F(Stopping, AMovedFolderEndsTheRunAndNothingIsMadeAnew) {
  for (const int ranks : {0, 2}) {
    auto program = start_endless(ranks, {"--save-every=5"});
    std::filesystem::rename(path("a"), path("moved"));
    const Outcome outcome = program->wait();
    EXPECT_FALSE(outcome.is_late);
    EXPECT_EQ(outcome.rc, 5) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("was moved, replaced or removed"));
    EXPECT_FALSE(has("a"));
    std::filesystem::remove_all(path("moved"));
  }
}

TEST_F(Stopping, PeoplesFilesInTheFolderStay) {
  write("a/tmp.k3nF9x", "mktemp's");
  write("a/tmp.notes/today.txt", "mine");
  write("a/STOP/why.txt", "a folder");
  EXPECT_EQ(run(2, train("a", {"--steps=6", "--save-every=2", "--keep=1"})).rc, 0);
  EXPECT_TRUE(has("a/tmp.k3nF9x"));
  EXPECT_TRUE(has("a/tmp.notes/today.txt"));
  EXPECT_TRUE(has("a/STOP/why.txt"));
}

TEST_F(Stopping, EveryMthCheckpointStays) {
  EXPECT_EQ(
      run(0, train("a", {"--steps=7", "--save-every=1", "--keep=1", "--keep-every=3"})).rc,
      0);
  EXPECT_EQ(checkpoints("a"),
            (Words{"step_000000000003", "step_000000000006", "step_000000000007"}));
}

TEST_F(Stopping, TheLastStepIsSavedUnlessToldOtherwise) {
  const Outcome outcome =
      run(0, train("a", {"--steps=5", "--save-every=3", "--save-at-end=false"}));
  EXPECT_EQ(outcome.rc, 0) << outcome.err;
  EXPECT_EQ(checkpoints("a"), Words{"step_000000000003"});
  EXPECT_THAT(outcome.out, HasSubstr("step 5 is not saved (--save-at-end=false); the "
                                     "newest checkpoint is of step 3"));
  EXPECT_THAT(metrics("a", "end"), SizeIs(1));
}

TEST_F(Stopping, TheClockSavesWhereNobodyCountsSteps) {
  auto program = start_endless(2, {"--save-every=1s"});
  EXPECT_TRUE(wait_until([&] { return metrics("a", "save").size() >= 2; }));
  program->send(SIGUSR1);
  EXPECT_EQ(program->wait().rc, 75);
}

// Somebody's file has the name of the checkpoint of step 80.
TEST_F(Stopping, ABestStepThatIsNotSavedTakesNoOthersPlace) {
  auto program =
      start(0, train("a", {"--steps=1000000", "--delay=adam=20", "--eval-every=40",
                           "--keep-best", "--save-every=50", "--keep=1",
                           "--on-save-error=continue", "--eval-fraction=0.1"}));
  const auto is_saved = [&](int64_t step) {
    const auto saves = metrics("a", "save");
    return std::ranges::any_of(saves,
                               [&](const auto& each) { return each["step"] == step; });
  };
  ASSERT_TRUE(wait_until([&] { return is_saved(40); })) << program->err_so_far();
  write("a/step_000000000080", "mine");
  ASSERT_TRUE(wait_until([&] { return is_saved(100); }));
  EXPECT_EQ(read_file(path("a/best")), "step_000000000040\n");
  EXPECT_TRUE(has("a/step_000000000040/manifest.json"));
  EXPECT_THAT(metrics("a", "save_failed"), SizeIs(1));
  EXPECT_EQ(metrics("a", "save_failed")[0]["step"], 80);
  EXPECT_EQ(read_file(path("a/step_000000000080")), "mine");
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().rc, 75);
}

TEST_F(Stopping, ASecondRunIsKeptOut) {
  auto program = start_endless(0);
  const Outcome second = run(0, train("a", {"--steps=5"}));
  EXPECT_EQ(second.rc, 5);
  EXPECT_THAT(second.err, HasSubstr("process " + std::to_string(program->pid())));
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().rc, 75);
}

TEST_F(Stopping, NumbersThatAreNotFiniteEndTheRun) {
  const Outcome outcome = run(2, train("a", {"--steps=200", "--lr=1e30", "--clip=0",
                                             "--max-bad-steps=3", "--save-every=1"}));
  EXPECT_EQ(outcome.rc, 4) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("not finite 3 times in a row"));
  EXPECT_THAT(outcome.err, HasSubstr("after step "));
  EXPECT_THAT(outcome.err, Not(HasSubstr("loss_scale_min")));
  const auto records = metrics("a", "step");
  ASSERT_GE(records.size(), 4u);
  for (size_t i = records.size() - 3; i < records.size(); ++i) {
    EXPECT_TRUE(records[i]["skipped"].get<bool>());
    EXPECT_FALSE(records[i]["first_bad"].get<std::string>().empty());
  }
}

// Down to the smallest scale nobody gives up; there it ends, and tells why.
TEST_F(Stopping, OverflowsAtTheSmallestLossScaleEndTheRun) {
  const Outcome outcome =
      run(2, train("a", {"--dtype=fp16", "--loss-scale-init=16", "--steps=200",
                         "--lr=1e30", "--clip=0", "--max-bad-steps=2"}));
  EXPECT_EQ(outcome.rc, 4) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("not finite 2 times in a row at the smallest loss scale, 1"));
  EXPECT_THAT(outcome.err, HasSubstr("dtype bf16"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("loss_scale_min"))) << "1 is the smallest";
  const auto records = metrics("a", "step");
  ASSERT_GE(records.size(), 6u);
  for (const int64_t scale : {16, 8, 4, 2, 1, 1}) {
    const auto& record =
        records[records.size() - (scale > 1 ? 2 : 1) -
                static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(scale)))];
    EXPECT_TRUE(record["skipped"].get<bool>());
    EXPECT_EQ(record["loss_scale"], scale);
  }
}

// Every second step is of what the model knows; others' gradients overflow.
TEST_F(Stopping, AGoodStepBetweenBadOnesEndsTheirRow) {
  std::string text(4 * 128 + 1, 'z');  // 128 tokens a step, and what comes next
  for (const size_t step : {1, 3}) text.replace(step * 128, 129, 129, 'a');
  const std::string known = write("known.txt", std::string(2000, 'a')),
                    mixed = write("mixed.txt", text);
  const auto on = [&](const std::string& data, const std::string& out, Words flags) {
    flags.insert(flags.end(), {"--shuffle=false", "--clip=0"});
    Words words = train(out, flags);
    *std::ranges::find(words, path("data.txt")) = data;
    return run(0, words);
  };
  EXPECT_EQ(on(known, "known", {"--steps=60", "--lr=1e-2"}).rc, 0);
  const Outcome outcome =
      on(mixed, "a",
         {"--init-from", path("known"), "--dtype=fp16", "--steps=2", "--lr=0",
          "--loss-scale-init=4194304", "--loss-scale-min=4194304", "--max-bad-steps=2"});
  EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
  EXPECT_THAT(read_file(path("a/" + last_of(checkpoints("a")) + "/manifest.json")),
              HasSubstr("\"num_bad\":2"));
}

TEST_F(Stopping, SkippedStepsCountOnAcrossAResume) {
  const Words bad = {"--lr=1e30",       "--clip=0",       "--max-bad-steps=0",
                     "--steps=1000000", "--save-every=1", "--delay=adam=5"};
  auto program = start(0, train("a", bad));
  ASSERT_TRUE(wait_until([&] {
    const auto records = metrics("a", "step");
    return records.size() > 3 && records.back().contains("skipped");
  }));
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().rc, 75);
  EXPECT_EQ(metrics("a", "saving").size(), 2u) << "of the step, and of the stop";
  const std::string manifest =
      read_file(path("a/" + last_of(checkpoints("a")) + "/manifest.json"));
  EXPECT_THAT(manifest,
              HasSubstr("\"num_batches\":" + std::to_string(steps("a").size()) + ","));
  const Words enough = {"--lr=1e30", "--clip=0", "--max-bad-steps=1", "--steps=1000000"};
  EXPECT_EQ(run(0, train("a", enough)).rc, 4);
}

}  // namespace
}  // namespace zero::scenarios::stop_test
