// The program tries its own promises, and sees when one is not kept.
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::selftest_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Selftest : public Scenario {
 protected:
  Selftest() { fs::create_directory(path("tmp")); }

  Outcome selftest(const Words& words, Words variables = {}) {
    variables.push_back("TMPDIR=" + path("tmp"));
    const Outcome outcome =
        start(0, verb("selftest", words), variables)->wait(std::chrono::seconds(300));
    EXPECT_FALSE(outcome.is_late) << outcome.out;
    return outcome;
  }
  // Folders of selftests that have stayed; MPI has some there, too.
  int64_t num_left() const {
    int64_t number = 0;
    for (const auto& entry : fs::directory_iterator(path("tmp")))
      number += entry.path().filename().string().starts_with("zero.tmp.selftest.");
    return number;
  }
  // An mpirun that gives ranks another seed: a machine on which ranks together train
  // something else than one alone.
  std::string path_with_a_faulty_mpirun() const {
    write("bin/mpirun", "#!/bin/bash\nPATH=${PATH#*:}\nexec mpirun \"$@\" --seed=99\n");
    fs::permissions(path("bin/mpirun"), fs::perms::owner_all);
    return "PATH=" + path("bin") + ":" + std::getenv("PATH");
  }
};

TEST_F(Selftest, KeepsItsPromisesAndLeavesNothingButTheReport) {
  // Variables are settings of the trial, and none of its runs' own.
  const Outcome outcome =
      selftest({"--to", path("report"), "--lr=0.002"}, {"ZERO_STEPS=2"});
  EXPECT_EQ(outcome.rc, 0) << outcome.out << outcome.err;
  const std::string report = read_file(path("report"));
  EXPECT_THAT(report, HasSubstr("12 of 12 promises kept"));
  EXPECT_THAT(report, HasSubstr("lr = 0.002"));
  EXPECT_THAT(report, Not(HasSubstr(path(""))));
  EXPECT_THAT(outcome.out, HasSubstr(report));
  EXPECT_THAT(outcome.out, Not(HasSubstr("FAILED")));
  EXPECT_EQ(num_left(), 0);
}

TEST_F(Selftest, AFaultOfManyRanksIsSeenAndItsRunsStay) {
  const Outcome outcome = selftest({"--json"}, {path_with_a_faulty_mpirun()});
  EXPECT_EQ(outcome.rc, 4) << outcome.out << outcome.err;
  const json told = json::parse(outcome.out);
  EXPECT_FALSE(told["kept"]);
  for (const json& result : told["results"]) {
    const std::string promise = result["promise"];
    const bool is_of_one_run =
        promise == "one rank trains" || promise.starts_with("masters") ||
        promise.starts_with("recompute") || promise.starts_with("a frozen") ||
        promise.starts_with("checkpoints") || promise.starts_with("eval");
    EXPECT_EQ(result["kept"], is_of_one_run) << result;
  }
  EXPECT_THAT(outcome.err, HasSubstr("its runs are in " + path("tmp")));
  EXPECT_EQ(num_left(), 1);
}

TEST_F(Selftest, CtrlCEndsItsChildrenAndLeavesNothing) {
  const auto program = start(0, verb("selftest", {}), {"TMPDIR=" + path("tmp")});
  ASSERT_TRUE(wait_until([&] { return pids_with(path("tmp")).size() > 0; }));
  program->send(SIGINT);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.rc, 130) << outcome.err;
  EXPECT_TRUE(wait_until([&] { return pids_with(path("tmp")).empty(); }));
  EXPECT_EQ(num_left(), 0);
}

}  // namespace
}  // namespace zero::scenarios::selftest_test
