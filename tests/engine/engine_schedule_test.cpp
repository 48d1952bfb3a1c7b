// What travels when: the order and the number of collectives, and that nothing stays
// gathered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "engine/device/host_device.h"
#include "tests/engine/training.h"

namespace zero::testing::engine_schedule_test {
namespace {

using ::testing::ElementsAre;

class EngineSchedule : public ::testing::Test {
 protected:
  Work work;
  Options options = small_options(work);

  // "gather h.0", "reduce (root)" ...: the collectives of units, in order, of each of the
  // two ranks.
  std::vector<std::string> trace(int passes) {
    work.steps = 1;
    work.micro_batches = 2 * passes;
    options.trace_comm = ::testing::TempDir() + "trace_" + std::to_string(getpid()) + "_";
    std::vector<std::string> lines;
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      Options mine = options;
      const int rank = comm->rank();
      mine.trace_comm += std::to_string(rank);
      std::remove(mine.trace_comm.c_str());
      auto model = std::make_shared<Gpt2Impl>(small_gpt2());
      Engine engine(model, mine, std::move(comm));
      for (int p = 0; p < passes; ++p) {
        const auto [tokens, targets] = batch_of(work, 257, 0, p);
        engine.backward(engine.forward(model, tokens, targets), 32);
      }
      engine.step();
      if (rank == 0) gathers = engine.num_gathers(), reductions = engine.num_reductions();
    });
    const std::vector<std::string> first = read(options.trace_comm + "0");
    EXPECT_EQ(first, read(options.trace_comm + "1"));
    return first;
  }

  static std::vector<std::string> read(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string seq, op, tag;
      words >> seq >> op >> tag;
      const std::string prefix = "transformer.";
      if (tag.starts_with(prefix)) tag = tag.substr(prefix.size());
      if (tag != "(root)" && !tag.starts_with("h.")) continue;
      if (op == "all_gather") lines.push_back("gather " + tag);
      if (op == "reduce_scatter") lines.push_back("reduce " + tag);
    }
    return lines;
  }

  int64_t gathers = 0, reductions = 0;
};

TEST_F(EngineSchedule, PrefetchesOneAheadAndReducesBackwards) {
  EXPECT_THAT(trace(1), ElementsAre("gather (root)", "gather h.0", "gather h.1",
                                    "gather h.2", "reduce h.2", "gather h.0",
                                    "reduce h.1", "reduce h.0", "reduce (root)"));
}

TEST_F(EngineSchedule, WithoutPrefetchGathersWhatItNeeds) {
  options.prefetch = 0;
  EXPECT_THAT(trace(1),
              ElementsAre("gather (root)", "gather h.0", "gather h.1", "gather h.2",
                          "reduce h.2", "gather h.1", "reduce h.1", "gather h.0",
                          "reduce h.0", "reduce (root)"));
  EXPECT_EQ(gathers, 1 + 3 + 2);  // the last unit is still there when backward begins
}

// With S slots, the S units at a turning point are still there. G units, P passes: G +
// (2P - 1)(G - S) gathers, and the root once per step.
TEST_F(EngineSchedule, CountsOfCollectivesFollowTheFormula) {
  for (const int prefetch : {0, 1, 2}) {
    for (const int passes : {1, 2, 5}) {
      options.prefetch = prefetch;
      trace(passes);
      const int units = 3, slots = 1 + prefetch;
      EXPECT_EQ(gathers, 1 + units + (2 * passes - 1) * (units - slots))
          << prefetch << " " << passes;
      EXPECT_EQ(reductions, passes * (units + 1));
    }
  }
}

TEST_F(EngineSchedule, WithoutReshardEveryUnitIsGatheredOncePerStep) {
  options.reshard_after_forward = false;
  trace(3);
  EXPECT_EQ(gathers, 4);
  EXPECT_EQ(reductions, 3 * 4);
}

// Gathers of 20 ms beside forwards of 25 ms: with prefetch they overlap, without they add
// up. Compared with each other in turn; the best of three each, so that only the schedule
// tells them apart.
TEST_F(EngineSchedule, GathersHideBehindTheForwardOfTheUnitBefore) {
  const auto seconds = [&](int prefetch) {
    options.prefetch = prefetch;
    const auto start = std::chrono::steady_clock::now();
    trace(1);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  set_delays({{"comm.all_gather", 20}, {"forward", 25}});
  double overlapped = 1e9, serial = 1e9;
  for (int round = 0; round < 3; ++round) {
    overlapped = std::min(overlapped, seconds(1));
    serial = std::min(serial, seconds(0));
  }
  set_delays({});
  EXPECT_LT(overlapped, serial);
}

}  // namespace
}  // namespace zero::testing::engine_schedule_test
