// What ranks of the host move, against the plan.
#include "tests/engine/traffic_story.h"

namespace zero::testing::engine_traffic_test {
namespace {

const Options kOptions = small_options(Work{.rows = 4});

TEST(EngineTraffic, IsThePlans) {
  for (const int ranks : {1, 2, 4}) expect_planned_traffic_throughout(ranks, kOptions);
}

// They lie in memory that the ranks share, or are gathered like others.
TEST(EngineTraffic, FrozenWeightsAreNotReduced) {
  Options options = kOptions;
  options.groups = {{"units.2.*", 1, {}, /*frozen=*/true}};
  const auto sizes = [] {
    return std::make_shared<SizesImpl>(std::vector<int64_t>{300, 300, 300, 300});
  };
  for (const bool are_streamed : {false, true}) {
    options.stream_always = are_streamed;
    expect_planned_traffic(2, options, sizes, torch::ones({64}));
  }
}

TEST(EngineTraffic, IsNothingForOneRankThatStreamsToItself) {
  Options options = kOptions;
  options.stream_always = true;
  const auto gpt2 = [] { return std::make_shared<Gpt2Impl>(small_gpt2()); };
  const auto [tokens, targets] = batch_of(Work{.rows = 4}, 257, 0, 0);
  expect_planned_traffic(1, options, gpt2, tokens, targets);
}

// A rank's own seconds: what the units compute, and what they wait for.
TEST(EngineSeconds, AreThoseOfTheirParts) {
  const Work work{.steps = 2, .micro_batches = 4};
  for (const int ranks : {1, 2}) {
    StreamSeconds both;
    Hooks hooks;
    hooks.after_step = [&](Engine& engine, Gpt2Impl&, int) {
      if (engine.rank() == 0) both = engine.stream_seconds();
    };
    train(ranks, small_options(work), work, hooks);
    EXPECT_GT(both.compute, 0);
    EXPECT_GT(both.waiting, 0);    // in step(), at least
    EXPECT_GT(both.optimizer, 0);  // the first step's, which is over
    EXPECT_EQ(both.weights > 0, ranks > 1);
    EXPECT_EQ(both.gradients > 0, ranks > 1);
  }
}

}  // namespace
}  // namespace zero::testing::engine_traffic_test
