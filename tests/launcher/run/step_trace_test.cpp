#include "launcher/run/step_trace.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/launcher/settings/configs.h"

namespace zero::launcher::step_trace_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

TEST(StepTrace, SpansBecomeEventsOfChrome) {
  const std::vector<Trace::Lane> lanes = {
      {"training", {{"forward blocks.3", 5'000'000'001'500, 5'000'000'004'000}}},
      {"updates", {{"update \"\xff", 2000, 2000}}}};
  const json events = json::parse(to_chrome(lanes, 3));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["ph"], "M");
  EXPECT_EQ(events[0]["name"], "process_name");
  EXPECT_EQ(events[0]["args"]["name"], "rank 3");
  EXPECT_EQ(events[1]["name"], "thread_name");
  EXPECT_EQ(events[1]["args"]["name"], "training");
  EXPECT_EQ(events[2], json({{"ph", "X"},
                             {"name", "forward blocks.3"},
                             {"cat", "forward"},
                             {"pid", 3},
                             {"tid", 0},
                             {"ts", 5'000'000'001.5},
                             {"dur", 2.5}}));
  EXPECT_EQ(events[3]["tid"], 1);
  EXPECT_EQ(events[4]["cat"], "update");
  EXPECT_EQ(events[4]["dur"], 0);
}

class StepTraceTest : public ::testing::Test {
 protected:
  // The steps up to and with `last`, each a span of its own.
  void make_steps(StepTrace& trace, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      trace.begin(step);
      { const Trace::Span span("step", std::to_string(step)); }
      trace.end(step);
    }
  }
  bool is_written() const { return std::filesystem::exists(file_); }
  std::vector<std::string> traced() const {
    std::vector<std::string> names;
    for (const json& event : json::parse(folder_.read("trace_00000.json"))) {
      if (event["ph"] == "X") names.push_back(event["name"]);
    }
    return names;
  }

  TempFolder folder_;
  const std::string file_ = folder_.path("trace_00000.json");
};

TEST_F(StepTraceTest, TheFirstAndTheLastStepAreInIt) {
  StepTrace trace({3, 5}, folder_.path(""), 0);
  make_steps(trace, 1, 4);
  EXPECT_FALSE(is_written());
  make_steps(trace, 5, 7);
  EXPECT_THAT(traced(), ElementsAre("step 3", "step 4", "step 5"));
  EXPECT_FALSE(Trace::is_on());
}

TEST_F(StepTraceTest, ARunThatEndsBeforeWritesWhatItHas) {
  {
    StepTrace trace({2, 9}, folder_.path(""), 0);
    make_steps(trace, 1, 3);
  }
  EXPECT_THAT(traced(), ElementsAre("step 2", "step 3"));
}

TEST_F(StepTraceTest, ARunThatResumesInTheMiddleBeginsThere) {
  StepTrace trace({2, 4}, folder_.path(""), 0);
  make_steps(trace, 4, 5);
  EXPECT_THAT(traced(), ElementsAre("step 4"));
}

TEST_F(StepTraceTest, AStepThatIsMadeAgainIsInItTwice) {
  StepTrace trace({2, 2}, folder_.path(""), 0);
  trace.begin(2);
  { const Trace::Span span("step", "2"); }
  trace.end(1);  // its loss was not finite
  make_steps(trace, 2, 3);
  EXPECT_THAT(traced(), ElementsAre("step 2", "step 2"));
}

TEST_F(StepTraceTest, NothingIsWrittenWhenNothingIsAsked) {
  testing::internal::CaptureStderr();
  {
    StepTrace none({}, folder_.path(""), 0);
    make_steps(none, 1, 3);
    StepTrace past({1, 2}, folder_.path(""), 0);
    make_steps(past, 3, 4);
  }
  EXPECT_FALSE(is_written());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "zero: no trace: steps 1 to 2 were not made\n");
}

TEST_F(StepTraceTest, AFileThatCannotBeWrittenStopsNothing) {
  StepTrace trace({1, 1}, folder_.path("absent"), 0);
  make_steps(trace, 1, 2);
  EXPECT_FALSE(is_written());
}

}  // namespace
}  // namespace zero::launcher::step_trace_test
