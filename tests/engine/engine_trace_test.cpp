// What a recording shows of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/device/host_device.h"
#include "engine/watch/trace.h"
#include "tests/engine/training.h"

namespace zero::testing::engine_trace_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Lanes = std::vector<Trace::Lane>;

class EngineTrace : public ::testing::Test {
 protected:
  ~EngineTrace() override { set_delays({}); }

  // The second step of a run, in which the updates of the first one may still run.
  Lanes second_step(int ranks, const Options& options) {
    Lanes lanes;
    Hooks hooks;
    hooks.after_step = [&](Engine& engine, Gpt2Impl&, int step) {
      if (engine.rank() != 0) return;
      if (step == 0) Trace::start();
      if (step == 1) lanes = Trace::finish();
    };
    hooks.before_step_end = [&](Engine& engine, Gpt2Impl&, int step) {
      if (engine.rank() == 0 && step == 0) set_delays(delays_);
    };
    train(ranks, options, work_, hooks);
    return lanes;
  }

  Options options() const { return small_options(work_); }

  const Work work_{.steps = 2, .micro_batches = 2};
  std::map<std::string, int> delays_;
};

std::vector<std::string> names(const Lanes& lanes, const std::string& thread) {
  std::vector<std::string> names;
  for (const Trace::Lane& lane : lanes) {
    for (const Trace::Event& event : lane.events) {
      if (lane.thread == thread) names.push_back(event.name);
    }
  }
  return names;
}

Trace::Event find(const Lanes& lanes, const std::string& name) {
  for (const Trace::Lane& lane : lanes) {
    const auto found = std::ranges::find(lane.events, name, &Trace::Event::name);
    if (found != lane.events.end()) return *found;
  }
  ADD_FAILURE() << "nothing is called " << name;
  return {};
}

TEST_F(EngineTrace, EachKindOfWorkIsThereWithItsUnit) {
  const Lanes lanes = second_step(2, options());
  const auto training = names(lanes, "training");
  for (const char* name :
       {"forward", "forward transformer.h.1", "backward", "backward transformer.h.1",
        "recompute transformer.h.1", "fill transformer.h.1", "step"})
    EXPECT_THAT(training, Contains(name));
  const auto communication = names(lanes, "communication");
  EXPECT_THAT(communication, Contains(StartsWith("all_gather 'transformer.h.1'")));
  EXPECT_THAT(communication, Contains(StartsWith("reduce_scatter 'transformer.h.1'")));
  EXPECT_THAT(communication, Contains("sum transformer.h.1"));
}

// Of groups of one rank: sums of a group, then those of all; and what others updated. A
// rank has half of a unit's 50,432 values.
TEST_F(EngineTrace, GroupsAreSeenToAddUpAndExchange) {
  Options groups = options();
  groups.shard_ranks = 1;
  EXPECT_THAT(names(second_step(2, groups), "communication"),
              AllOf(Contains("reduce_scatter 'transformer.h.1' (201728 bytes)"),
                    Contains("reduce_scatter 'transformer.h.1' (100864 bytes)"),
                    Contains("all_gather 'transformer.h.1' (100864 bytes)")));
}

TEST_F(EngineTrace, SpansOfAThreadLieBesideOrInsideOneAnother) {
  for (Trace::Lane& lane : second_step(2, options())) {
    auto& events = lane.events;
    for (size_t i = 0; i < events.size(); ++i) {
      for (size_t k = i + 1; k < events.size(); ++k) {
        const Trace::Event &earlier = events[i], &later = events[k];
        EXPECT_TRUE(later.begin_ns >= earlier.end_ns || later.begin_ns <= earlier.begin_ns)
            << lane.thread << ": " << earlier.name << ", " << later.name;
        EXPECT_LE(earlier.end_ns, later.end_ns);
      }
    }
  }
}

TEST_F(EngineTrace, UpdatesAreSeenBesideTheNextForward) {
  delays_ = {{"update", 40}};
  const Lanes lanes = second_step(1, options());
  EXPECT_THAT(names(lanes, "training"), Contains("wait for updates"));
  const Trace::Event last = find(lanes, "update transformer.h.2");
  EXPECT_LT(find(lanes, "forward transformer.h.0").end_ns, last.end_ns);
  EXPECT_GT(find(lanes, "forward transformer.h.2").end_ns, last.end_ns);
}

TEST_F(EngineTrace, UpdatesThatDoNotOverlapAreSeenInTheStep) {
  delays_ = {{"update", 5}};
  Options serial = options();
  serial.overlap_updates = false;
  const Lanes lanes = second_step(1, serial);
  const Trace::Event first = find(lanes, "update (root)"), step = find(lanes, "step");
  EXPECT_GT(first.begin_ns, step.begin_ns);
  EXPECT_LT(find(lanes, "update transformer.h.2").end_ns, step.end_ns);
}

TEST_F(EngineTrace, RecordingChangesNoBit) {
  Hooks hooks;
  hooks.after_step = [](Engine& engine, Gpt2Impl&, int step) {
    if (engine.rank() == 0 && step == 0) Trace::start();
  };
  const Trained traced = train(2, options(), work_, hooks);
  EXPECT_FALSE(Trace::finish().empty());
  expect_same(traced, train(2, options(), work_));
}

}  // namespace
}  // namespace zero::testing::engine_trace_test
