// Something is odd: what does this machine offer, and does the program keep its word
// here?
#include <algorithm>
#include <filesystem>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::doctor_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Doctor : public Scenario {
 protected:
  // The machine of a test may have bad findings; what is said of one thing counts.
  json told(int ranks, Words words, const Words& variables = {}) {
    words.push_back("--json");
    const Outcome outcome = run(ranks, verb("doctor", words), variables);
    EXPECT_THAT(outcome.rc, ::testing::AnyOf(0, 3)) << outcome.err;
    const json all = json::parse(outcome.out);
    EXPECT_EQ(outcome.rc, all["bad"] == 0 ? 0 : 3) << outcome.out;
    return all["findings"];
  }
  static json finding(const json& all, const std::string& name) {
    for (const json& each : all)
      if (each["name"] == name) return each;
    ADD_FAILURE() << "nothing is said of " << name;
    return {{"mark", ""}, {"text", ""}};
  }
};

TEST_F(Doctor, LooksAtAllAndLeavesNothing) {
  fs::create_directory(path("out"));
  json all;
  for (int tries = 3; tries > 0; --tries) {  // two ranks may be late where all is busy
    all = told(0, {"--out", path("out")});
    if (finding(all, "hello")["mark"] == "ok") break;
  }
  for (const char* name : {"cores", "quota", "NUMA", "instructions", "room", "swap",
                           "memlock", "/dev/shm", "kind", "mpirun", "LibTorch", "driver"})
    finding(all, name);
  EXPECT_GT(finding(all, "speed")["gb_per_s"], 0);
  EXPECT_THAT(finding(all, "hello")["text"].get<std::string>(),
              HasSubstr("hello from 2 ranks on 1 host"));
  EXPECT_EQ(finding(all, "LibTorch")["mark"], "ok");
  for (const json& each : all) EXPECT_EQ(each.contains("cure"), each["mark"] != "ok");
  EXPECT_TRUE(fs::is_empty(path("out")));
}

TEST_F(Doctor, TriesTheRanksOfTheUsersOwnMpirun) {
  const json all = told(3, {});
  EXPECT_THAT(finding(all, "hello")["text"].get<std::string>(),
              HasSubstr("hello from 3 ranks on 1 host"));
}

TEST_F(Doctor, RanksThatMpiDoesNotSeeAreBad) {
  const json hello = finding(told(0, {}, {"OMPI_COMM_WORLD_SIZE=4"}), "hello");
  EXPECT_EQ(hello["mark"], "bad");
  EXPECT_THAT(hello["text"].get<std::string>(), HasSubstr("announces 4 ranks"));
}

TEST_F(Doctor, NeedsNoMpirun) {
  const json all = told(0, {}, {"PATH=" + path("none")});
  EXPECT_EQ(finding(all, "mpirun")["mark"], "note");
  EXPECT_EQ(finding(all, "hello")["mark"], "note");
}

TEST_F(Doctor, AFolderThatCannotBeWrittenIsBad) {
  write("file", "");
  const Outcome outcome = run(0, verb("doctor", {"--out", path("file")}));
  EXPECT_EQ(outcome.rc, 3);
  EXPECT_THAT(outcome.out, HasSubstr("bad   writing"));
  EXPECT_THAT(outcome.out, HasSubstr("try: --out DIR"));
  if (!fs::is_directory("/sys/kernel")) return;
  EXPECT_EQ(finding(told(0, {"--out=/sys/kernel"}), "writing")["mark"], "bad");
}

TEST_F(Doctor, WrongUseIsTold) {
  EXPECT_EQ(run(0, verb("doctor", {"--lr=1"})).rc, 2);
  EXPECT_EQ(run(0, verb("doctor", {"--out=a", "stray"})).rc, 2);
  EXPECT_THAT(run(0, verb("doctor", {"--help"})).out, HasSubstr("nothing is bad"));
  EXPECT_THAT(run(0, verb("--help", {})).out, Not(HasSubstr("hello")));
}

}  // namespace
}  // namespace zero::scenarios::doctor_test
