// Units whose bodies are functions on a compute stream that runs behind its caller: what
// the streamer does for its ring, and what it reads of the weights itself.
#include "engine/weights/torch/weight_streamer.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "base/hash.h"
#include "engine/device/host_device.h"
#include "zero/ranks.h"

namespace zero::testing::weight_streamer_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

constexpr int64_t kNumel = (1 << 18) + 64;  // over 1 MiB
constexpr int kNumUnits = 4;                // with the root

void be_slow() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

Options options_with(int prefetch) {
  Options options;
  options.stream_always = true;
  options.prefetch = prefetch;
  return options;
}

// A parameter of as many numbers in the root and in each unit.
UnitPlan plan_of(const Options& options) {
  const std::vector<UnitDescription> units = {
      {"", "Model", -1}, {"a", "Block", 0}, {"b", "Block", 0}, {"c", "Block", 0}};
  const std::vector<ParamDescription> params = {{"w", {kNumel}, {"w"}, {0}},
                                                {"a.w", {kNumel}, {"a.w"}, {1}},
                                                {"b.w", {kNumel}, {"b.w"}, {2}},
                                                {"c.w", {kNumel}, {"c.w"}, {3}}};
  return make_unit_plan(units, params, options, 1);
}

// Weights of a model whose units have their numbers as parameters.
class Streamed {
 public:
  explicit Streamed(int prefetch, HostDeviceOptions host = {})
      : options_(options_with(prefetch)), device_(make_device(host)) {
    for (int unit = 0; unit < kNumUnits; ++unit) {
      std::fill_n(shards_[unit].master, kNumel, static_cast<float>(unit));
      params_.push_back(torch::zeros({kNumel}));
      ready_.push_back(std::make_unique<Event>());
    }
    stream_ = device_->make_stream("communication");
    weights_ = std::make_unique<WeightStreamer>(
        Workplace{plan_, memory_, options_, shards_, *device_, *comm_, threads_}, params_,
        *stream_, [this](int unit) -> const Event& { return *ready_[unit]; });
  }
  ~Streamed() { stream_->synchronize(); }

  WeightStreamer& weights() { return *weights_; }
  HostStream& compute() { return as_host_stream(device_->compute_stream()); }
  HostStream& stream() { return as_host_stream(*stream_); }
  float* param(int unit) const { return params_[unit].data_ptr<float>(); }

  void run(
      int unit, WeightStreamer::Direction direction, void (*first)() = [] {}) {
    const WeightStreamer::Unsharded unsharded(*weights_, unit, direction);
    compute().enqueue([this, first, weights = param(unit)] {
      first();
      seen_.push_back(weights[0] == weights[kNumel - 1] ? weights[0] : NAN);
    });
  }
  void forward(void (*first)() = [] {}) {
    for (int unit = 1; unit < kNumUnits; ++unit)
      run(unit, WeightStreamer::Direction::kForward, first);
  }
  void backward(void (*first)() = [] {}) {
    for (int unit = kNumUnits - 1; unit > 0; --unit)
      run(unit, WeightStreamer::Direction::kBackward, first);
  }
  // What bodies have found, in their order.
  const std::vector<float>& seen() {
    compute().synchronize();
    return seen_;
  }

 private:
  static std::unique_ptr<Device> make_device(HostDeviceOptions host) {
    host.async_compute = true;
    return make_host_device(host);
  }

  const Options options_;
  const UnitPlan plan_ = plan_of(options_);
  const MemoryPlan memory_ = make_memory_plan(plan_, options_);
  const std::unique_ptr<Device> device_;
  ShardStore shards_{plan_, memory_, *device_, /*rank=*/0};
  const std::unique_ptr<Collectives> comm_ = make_one_rank()->make_collectives();
  ThreadPool threads_{1};
  std::vector<at::Tensor> params_;
  std::vector<std::unique_ptr<Event>> ready_;
  std::vector<float> seen_;
  std::unique_ptr<WeightStreamer> weights_;
  std::unique_ptr<Stream> stream_;  // goes first: it writes into what is above
};

TEST(WeightStreamerTest, SlowBodiesSeeTheirUnits) {
  for (const int prefetch : {0, 1, 2}) {
    Streamed model(prefetch);
    model.forward(be_slow);
    model.backward(be_slow);
    EXPECT_THAT(model.seen(), ElementsAre(1, 2, 3, 3, 2, 1)) << prefetch;
  }
}

TEST(WeightStreamerTest, AUnitThatFoundNoRoomMayBeAskedForAgain) {
  Streamed model(0);
  int unit = 1;
  {
    using Unsharded = WeightStreamer::Unsharded;
    std::vector<std::unique_ptr<Unsharded>> nested;
    const auto nest_all = [&] {
      for (; unit < kNumUnits; ++unit)
        nested.push_back(std::make_unique<Unsharded>(
            model.weights(), unit, WeightStreamer::Direction::kForward));
    };
    EXPECT_THROW(nest_all(), Error);
  }
  model.run(unit, WeightStreamer::Direction::kForward);
  EXPECT_THAT(model.seen(), ElementsAre(unit));
  model.weights().invalidate(/*frozen_too=*/false);  // asserts that no unit has users
}

TEST(WeightStreamerTest, ChaosChangesNothingThatABodySees) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Streamed model(seed % 3, {.chaos_seed = seed, .max_chaos_delay_us = 200});
    std::vector<float> expected;
    for (int step = 0; step < 3; ++step) {
      model.forward();
      model.backward();
      expected.insert(expected.end(), {1, 2, 3, 3, 2, 1});
      model.weights().invalidate(/*frozen_too=*/false);  // the compute stream is still
                                                         // behind
    }
    EXPECT_THAT(model.seen(), ElementsAreArray(expected)) << seed;
  }
}

TEST(WeightStreamerTest, AWatchIsOfTheGatheredWeights) {
  Streamed model(0);
  model.stream().enqueue(be_slow);
  const WeightStreamer::Unsharded unsharded(model.weights(), 3,
                                            WeightStreamer::Direction::kForward);
  const WeightWatch watch = model.weights().watch(3, /*compares_values=*/true, false);
  const std::vector<float> threes(kNumel, 3);
  EXPECT_THAT(watch.hashes, ElementsAre(hash_of(threes.data(), 4 * kNumel)));
  EXPECT_EQ(model.weights().first_changed(3, watch), "");
}

TEST(WeightStreamerTest, WhatAQueuedBodyChangesIsSeen) {
  for (const int64_t changed : {int64_t{0}, kNumel - 1}) {
    Streamed model(0);
    const WeightStreamer::Unsharded unsharded(model.weights(), 2,
                                              WeightStreamer::Direction::kForward);
    const WeightWatch watch = model.weights().watch(2, /*compares_values=*/true, false);
    model.compute().enqueue([changed, weights = model.param(2)] {
      be_slow();
      weights[changed] = 5;
    });
    EXPECT_EQ(model.weights().first_changed(2, watch), "b.w");
  }
}

}  // namespace
}  // namespace zero::testing::weight_streamer_test
