// Traces of runs, whatever their end.
#include <algorithm>
#include <csignal>

#include "tests/scenarios/scenario.h"

namespace zero::scenarios::trace_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class TracedRun : public Scenario {
 protected:
  // Names of the spans of a rank.
  Words spans(const std::string& out, int rank) const {
    Words names;
    const std::string file = out + "/trace_0000" + std::to_string(rank) + ".json";
    for (const json& event : json::parse(read_file(path(file)))) {
      EXPECT_EQ(event["pid"], rank);
      if (event["ph"] == "X") names.push_back(event["name"]);
    }
    return names;
  }
  Words steps_in(const Words& spans) const {
    Words steps;
    std::ranges::copy_if(spans, std::back_inserter(steps),
                         [](auto& name) { return name.starts_with("step "); });
    return steps;
  }
};

TEST_F(TracedRun, EveryRankWritesItsOwnAndNothingElseChanges) {
  const Words same = {"--steps=4", "--save-every=3", "--save=sync"};
  const auto with = [&](const std::string& name, Words flags) {
    flags.insert(flags.end(), {"--dump-state", path(name + ".state")});
    flags.insert(flags.end(), same.begin(), same.end());
    EXPECT_EQ(run(2, train(name, flags)).rc, 0);
    return read_state(path(name + ".state"));
  };
  const State traced = with("a", {"--trace", "steps=2:3"});
  for (const int rank : {0, 1}) {
    const Words names = spans("a", rank);
    EXPECT_THAT(steps_in(names), ElementsAre("step 2", "step 3"));
    EXPECT_THAT(names, AllOf(Contains("forward transformer.h.1"),
                             Contains("update transformer.h.0"),
                             Contains("saving step 3"), Not(Contains("saving step 4"))));
  }
  const State plain = with("b", {});
  EXPECT_FALSE(has("b/trace_00000.json"));
  expect_same(plain, traced);
  EXPECT_EQ(plain.losses, traced.losses);
}

TEST_F(TracedRun, ASignalInTheMiddleLeavesAWholeFile) {
  const auto program = start(0, train("a", {"--steps=100000", "--trace=steps=2:90000"}));
  ASSERT_TRUE(wait_for_step("a", 4));
  program->send(SIGTERM);
  EXPECT_EQ(program->wait().rc, 75);
  EXPECT_THAT(spans("a", 0),
              AllOf(Contains("step 4"), Contains(::testing::StartsWith("saving"))));
}

TEST_F(TracedRun, AnErrorInTheMiddleLeavesAWholeFile) {
  const Outcome outcome = run(0, train("a", {"--steps=9", "--lr=1e30",
                                             "--max-bad-steps=1", "--trace=steps=1:9"}));
  EXPECT_EQ(outcome.rc, 4) << outcome.err;
  EXPECT_THAT(steps_in(spans("a", 0)), Contains("step 1"));
}

}  // namespace
}  // namespace zero::scenarios::trace_test
