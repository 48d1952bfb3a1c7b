// What ranks with GPUs move, against the plan; and what is seen of their streams.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "engine/watch/trace.h"
#include "tests/engine/traffic_story.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/save_load.h"

namespace zero::testing::traffic_standin_test {
namespace {

using ::testing::Contains;
using ::testing::IsSupersetOf;

Options on_gpu(const Work& work) {
  of_standin<void()>("standin_reset")();
  Options options = small_options(work);
  options.device = DeviceChoice::kCuda;
  return options;
}

TEST(TrafficOfGpus, IsThePlans) {
  for (const int ranks : {1, 2, 4})
    expect_planned_traffic_throughout(ranks, on_gpu(Work{.rows = 4}));
}

TEST(TrafficOfGpus, IsOfStepsAlone) {
  const std::string run = ::testing::TempDir() + "traffic_standin";
  const Work work{.steps = 1, .micro_batches = 1};
  Options options = on_gpu(work);
  options.offload = Offload::kNone;
  const auto save = [&](Engine& engine, Gpt2Impl&, int) {
    const Traffic before = engine.traffic();
    save_checkpoint(engine, run, {.step = 1}, /*replace=*/true);
    EXPECT_EQ(engine.traffic(), before);
  };
  train(1, options, work, {.before_step_end = {}, .after_step = save});
  std::filesystem::remove_all(run);
}

// What is seen of two steps on rank 0, and of the second one drawn.
struct Seen {
  StreamSeconds seconds;
  std::vector<Trace::Lane> lanes;
};

Seen two_steps(int ranks, Offload offload = Offload::kAll) {
  const Work work{.steps = 2, .micro_batches = 4};
  Seen seen;
  Hooks hooks;
  hooks.after_step = [&](Engine& engine, Gpt2Impl&, int step) {
    if (engine.rank() != 0) return;
    seen.seconds = engine.stream_seconds();
    if (step == 1) seen.lanes = Trace::finish();
    if (step == 0 && ranks == 1) Trace::start();
  };
  Options options = on_gpu(work);
  options.offload = offload;
  train(ranks, options, work, hooks);
  return seen;
}

TEST(SecondsOfGpus, AreThoseOfTheirParts) {
  for (const int ranks : {1, 2}) {
    const StreamSeconds both = two_steps(ranks).seconds;
    EXPECT_GT(both.compute, 0);
    EXPECT_GT(both.waiting, 0);
    EXPECT_GT(both.weights, 0);
    EXPECT_GT(both.gradients, 0);
    EXPECT_GT(both.optimizer, 0);
  }
}

TEST(SecondsOfGpus, CountItsOwnUpdates) {
  const StreamSeconds of_gpu = two_steps(1, Offload::kNone).seconds;
  EXPECT_GT(of_gpu.optimizer, 0);
  EXPECT_EQ(of_gpu.weights, 0);
  EXPECT_GT(two_steps(1, Offload::kOptimizer).seconds.weights, 0);
}

class LanesOfAGpu : public ::testing::Test {
 protected:
  static const std::vector<Trace::Lane>& lanes() {
    static const std::vector<Trace::Lane> lanes = two_steps(1).lanes;
    return lanes;
  }
  static std::vector<Trace::Event> lane(const std::string& name) {
    const auto found = std::ranges::find(lanes(), name, &Trace::Lane::thread);
    return found == lanes().end() ? std::vector<Trace::Event>() : found->events;
  }
  static std::vector<std::string> names(const std::string& of_lane) {
    std::vector<std::string> names;
    for (const Trace::Event& event : lane(of_lane)) names.push_back(event.name);
    return names;
  }
};

TEST_F(LanesOfAGpu, EachStreamTellsWhatItDoesWithWhichUnit) {
  EXPECT_THAT(names("GPU compute"),
              IsSupersetOf({"forward", "forward transformer.h.1",
                            "wait for transformer.h.1", "recompute transformer.h.1",
                            "backward transformer.h.1", "backward"}));
  EXPECT_THAT(names("GPU communication"),
              IsSupersetOf({"gather (root)", "gather transformer.h.1"}));
  EXPECT_THAT(names("GPU copy out"),
              IsSupersetOf({"reduce (root)", "reduce transformer.h.1"}));
  const auto of_thread = names("training");
  EXPECT_THAT(of_thread, Contains("forward transformer.h.1"));
  EXPECT_THAT(of_thread, ::testing::Not(Contains("gather transformer.h.1")));
}

// By the host's clock: what the GPU does lies in the step, and in order.
TEST_F(LanesOfAGpu, TimesAreTheHosts) {
  const std::vector<Trace::Event> threads = lane("training"), gpu = lane("GPU compute");
  const auto first = [](const std::vector<Trace::Event>& events, const char* name) {
    return *std::ranges::find(events, name, &Trace::Event::name);
  };
  ASSERT_THAT(names("training"), Contains("forward"));
  ASSERT_THAT(names("GPU compute"), IsSupersetOf({"forward", "backward"}));
  constexpr int64_t kSlack = 1'000'000;
  EXPECT_GE(first(gpu, "forward").begin_ns, first(threads, "forward").begin_ns - kSlack);
  EXPECT_LE(gpu.back().end_ns, Trace::now_ns() + kSlack);
  EXPECT_LE(first(gpu, "forward").end_ns, first(gpu, "backward").begin_ns + kSlack);
  for (const Trace::Lane& lane : lanes()) {
    for (const Trace::Event& event : lane.events) EXPECT_LE(event.begin_ns, event.end_ns);
  }
}

}  // namespace
}  // namespace zero::testing::traffic_standin_test
