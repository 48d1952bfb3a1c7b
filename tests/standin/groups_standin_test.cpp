// Groups of ranks that compute on GPUs: the bits of the host, wherever shards lie and
// sums are made. The GPUs are the stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/traffic_story.h"
#include "tests/engine/training.h"
#include "tests/standin/gpu_of_tests.h"
#include "zero/errors.h"

namespace zero::testing::groups_standin_test {
namespace {

struct Home {
  const char* name;
  Offload offload;
  double fraction = 0;
  GradSums sums = GradSums::kHost;
};
constexpr Home kHomes[] = {{"nothing", Offload::kAll},
                           {"weights", Offload::kOptimizer},
                           {"all", Offload::kNone},
                           {"half", Offload::kAll, 0.6},
                           {"sums", Offload::kAll, 0, GradSums::kDevice}};

class GroupsStandinTest : public ::testing::Test {
 protected:
  GroupsStandinTest() { options.deterministic = true; }

  Options at(const Home& home, int group) const {
    Options there = options;
    there.device = DeviceChoice::kCuda;
    there.offload = home.offload;
    there.device_state_fraction = home.fraction;
    there.grad_sums = home.sums;
    there.shard_ranks = group;
    return there;
  }

  Trained train_at(const Options& there) {
    of_standin<void()>("standin_reset")();
    return train(
        4, there, work,
        {.before_step_end = {}, .after_step = [](Engine& engine, Gpt2Impl&, int) {
           expect_planned_bytes(engine);
         }});
  }

  void expect_bits_of_the_host() {
    const Trained on_host = train(1, options, work);
    for (const Home& home : kHomes) {
      for (const int group : {1, 2}) {
        SCOPED_TRACE(std::string(home.name) + " in groups of " + std::to_string(group));
        expect_same(train_at(at(home, group)), on_host);
        EXPECT_EQ(ask_standin("standin_num_left"), 0);
      }
    }
  }

  Work work{.steps = 3, .micro_batches = 8, .seq_len = 16};
  Options options = small_options(work);
};

TEST_F(GroupsStandinTest, TheBitsOfTheHost) {
  options.clip = 0.5;
  expect_bits_of_the_host();
}

// Gradients are rounded behind the sum of all groups.
TEST_F(GroupsStandinTest, OnePassAStepWithGradientsInBf16) {
  work.micro_batches = 4;
  options.grad_dtype = DType::kBf16;
  for (const DType dtype : {DType::kBf16, DType::kFp32}) {
    options.dtype = dtype;
    expect_bits_of_the_host();
  }
}

TEST_F(GroupsStandinTest, InAnyOrderOfTime) {
  work.micro_batches = 4;
  options.dtype = DType::kBf16;
  const Trained on_host = train(1, options, work);
  for (const uint64_t seed : {1, 2}) {
    options.chaos_seed = seed;
    for (const Home& home : kHomes) expect_same(train_at(at(home, 2)), on_host);
  }
}

// Sums in 16 bits, and of passes that are not counted: near the host's.
TEST_F(GroupsStandinTest, RunningSumsAndNarrowOnes) {
  options.deterministic = false;
  for (const DType wire : {DType::kFp32, DType::kBf16}) {
    options.reduce_dtype = options.grad_dtype = wire;
    options.shard_ranks = 2;
    const Trained on_host = train(4, options, work);
    for (const Home& home : kHomes) {
      SCOPED_TRACE(home.name);
      for (const int group : {1, 2}) {
        const Trained there = train_at(at(home, group));
        for (int step = 0; step < work.steps; ++step) {
          EXPECT_NEAR(there.losses[step], on_host.losses[step], 1e-3);
          EXPECT_NEAR(there.norms[step] / on_host.norms[step], 1, 1e-2);
        }
      }
    }
  }
}

TEST_F(GroupsStandinTest, TrafficIsThePlans) {
  for (const int group : {1, 2}) {
    Options base = small_options(Work{.rows = 4});
    base.device = DeviceChoice::kCuda;
    base.shard_ranks = group;
    expect_planned_traffic_throughout(4, base);
  }
}

}  // namespace
}  // namespace zero::testing::groups_standin_test
