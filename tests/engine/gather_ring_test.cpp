// Units whose bodies are functions on a compute stream that runs behind its caller, as a
// GPU's does: what they read must stay until they have run.
#include "engine/weights/gather_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <vector>

#include "engine/device/host_device.h"
#include "zero/ranks.h"

namespace zero::gather_ring_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kNumel = 64;
constexpr int64_t kBytes = kNumel * sizeof(float);
constexpr int kNumUnits = 6;

// Longer than anything else here takes: who does not wait comes too early.
void be_slow() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

class GatherRingTest : public ::testing::Test {
 protected:
  GatherRingTest() { make({}, /*num_slots=*/1); }

  // Anew: a ring whose units have their numbers as weights.
  void make(HostDeviceOptions options, int num_slots) {
    ring_.reset();
    stream_.reset();
    options.async_compute = true;
    device_ = make_host_device(options);
    stream_ = device_->make_stream("communication");
    for (int unit = 0; unit < kNumUnits; ++unit)
      shards_[unit].assign(kNumel, static_cast<float>(unit));
    seen_.clear();
    const SlotPlan plan = {{{kBytes, num_slots}}, std::vector<int>(kNumUnits, 0)};
    ring_ = std::make_unique<GatherRing>(*device_, *comm_, *stream_, "ring", plan);
  }

  GatherSource source(int unit) const {
    return {unit, {{shards_[unit].data(), kBytes, "unit"}}, [this]() -> const Event& {
              return updated_;
            }};
  }
  void queue(Stream& stream, std::function<void()> operation) {
    as_host_stream(stream).enqueue(std::move(operation));
  }
  // A body notes what it finds: one number, or NaN if it is not the same everywhere.
  void queue_body(
      const void* slot, std::function<void()> first = [] {}) {
    queue(compute(), [this, first, weights = static_cast<const float*>(slot)] {
      first();
      const bool is_one = std::all_of(weights, weights + kNumel,
                                      [&](float w) { return w == weights[0]; });
      seen_.push_back(is_one ? weights[0] : NAN);
    });
  }
  // As a unit is run.
  void run(
      int unit, std::function<void()> first = [] {}) {
    queue_body(ring_->acquire(source(unit)), std::move(first));
    ring_->release(unit);
  }
  const std::vector<float>& seen() {
    compute().synchronize();
    return seen_;
  }
  Stream& compute() { return device_->compute_stream(); }

  const std::unique_ptr<Collectives> comm_ = make_one_rank()->make_collectives();
  std::unique_ptr<Device> device_;
  Event updated_;
  std::vector<float> shards_[kNumUnits];
  std::vector<float> seen_;  // by bodies, in their order
  std::unique_ptr<GatherRing> ring_;
  std::unique_ptr<Stream> stream_;  // goes first: it writes into what is above
};

TEST_F(GatherRingTest, ABodyWaitsForItsWeights) {
  queue(*stream_, be_slow);
  run(3);
  EXPECT_THAT(seen(), ElementsAre(3));
}

TEST_F(GatherRingTest, AGatherThatFailsLeavesNoUnitBehind) {
  run(1);
  GatherSource failing = source(2);
  failing.ready = []() -> const Event& { throw std::runtime_error("not ready"); };
  EXPECT_THROW(ring_->acquire(failing), std::runtime_error);
  run(2);
  run(1);
  EXPECT_THAT(seen(), ElementsAre(1, 2, 1));
}

TEST_F(GatherRingTest, AGatherWaitsForTheUpdateOfItsShard) {
  auto updates = device_->make_stream("updates");
  queue(*updates, [this] {
    be_slow();
    shards_[3].assign(kNumel, 30);
  });
  updates->record(updated_);
  run(3);
  EXPECT_THAT(seen(), ElementsAre(30));
}

TEST_F(GatherRingTest, ASlotIsKeptForABodyThatIsQueued) {
  run(1, be_slow);
  run(2);
  run(1, be_slow);
  run(3);
  EXPECT_THAT(seen(), ElementsAre(1, 2, 1, 3));
}

TEST_F(GatherRingTest, APrefetchWaitsForABodyThatIsQueued) {
  make({}, 2);
  run(1, be_slow);
  ring_->prefetch(source(2));
  run(2, be_slow);
  ring_->prefetch(source(3));
  run(3, be_slow);
  ring_->prefetch(source(4));
  run(4);
  EXPECT_THAT(seen(), ElementsAre(1, 2, 3, 4));
}

TEST_F(GatherRingTest, WhatIsWantedSoonIsNotDroppedForWhatIsWantedLater) {
  make({}, 3);
  for (int unit = 1; unit <= 4; ++unit) run(unit);
  for (int unit = 4; unit >= 1; --unit) {
    queue_body(ring_->acquire(source(unit)), [] {});
    for (const int next : {unit - 1, unit - 2}) {
      if (next >= 1) ring_->prefetch(source(next));
    }
    ring_->release(unit);
  }
  EXPECT_THAT(seen(), ElementsAre(1, 2, 3, 4, 4, 3, 2, 1));
  EXPECT_EQ(ring_->num_gathers(), 4 + 1);
}

TEST_F(GatherRingTest, ABodyOfAUnitThatCameBackIsWaitedFor) {
  run(1);
  run(1, be_slow);  // not gathered again
  run(2);
  EXPECT_THAT(seen(), ElementsAre(1, 1, 2));
  EXPECT_EQ(ring_->num_gathers(), 2);
}

TEST_F(GatherRingTest, TheLastOfNestedUsersIsWaitedFor) {
  ring_->acquire(source(1));
  run(1);
  queue_body(ring_->acquire(source(1)), be_slow);
  ring_->release(1);
  queue_body(ring_->acquire(source(1)), be_slow);
  ring_->release(1);
  ring_->release(1);
  run(2);
  EXPECT_THAT(seen(), ElementsAre(1, 1, 1, 2));
}

TEST_F(GatherRingTest, WhatIsInvalidStaysForABodyThatIsQueued) {
  run(1, be_slow);
  stream_->synchronize();  // the compute stream alone is behind
  shards_[1].assign(kNumel, 10);
  ring_->invalidate();
  run(1);
  EXPECT_THAT(seen(), ElementsAre(1, 10));
}

TEST_F(GatherRingTest, WhatIsInvalidIsWaitedForByNobody) {
  ring_->prefetch(source(1));
  ring_->prefetch(source(2));  // finds no slot: somebody waits for unit 1
  EXPECT_EQ(ring_->num_gathers(), 1);
  ring_->invalidate();
  ring_->prefetch(source(2));
  EXPECT_EQ(ring_->num_gathers(), 2);
}

TEST_F(GatherRingTest, OneRankGathersItsOwnBytesAlone) {
  run(1);
  EXPECT_EQ(ring_->gathered_bytes(), 0);
}

TEST_F(GatherRingTest, WhatIsForgottenStaysForABodyThatIsQueued) {
  queue_body(ring_->acquire(source(1)), be_slow);
  ring_->forget(1);
  ring_->release(1);
  stream_->synchronize();
  shards_[1].assign(kNumel, 10);
  run(1);
  EXPECT_THAT(seen(), ElementsAre(1, 10));
  EXPECT_EQ(ring_->num_gathers(), 2);
}

TEST_F(GatherRingTest, EndsAfterItsReaders) {
  bool has_run = false;
  queue_body(ring_->acquire(source(1)), [&] {
    be_slow();
    has_run = true;
  });
  ring_->release(1);
  stream_.reset();
  ring_.reset();
  EXPECT_TRUE(has_run);
}

// Forward and backward with the next unit gathered ahead, as WeightStreamer does.
TEST_F(GatherRingTest, ChaosChangesNothingThatABodySees) {
  const std::vector<int> order = {0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    make({.chaos_seed = seed, .max_chaos_delay_us = 200}, 1 + seed % 3);
    for (size_t i = 0; i < order.size(); ++i) {
      queue_body(ring_->acquire(source(order[i])));
      if (i + 1 < order.size()) ring_->prefetch(source(order[i + 1]));
      ring_->release(order[i]);
    }
    EXPECT_THAT(seen(), ::testing::ElementsAreArray(order)) << seed;
  }
}

}  // namespace
}  // namespace zero::gather_ring_test
