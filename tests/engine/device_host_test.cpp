#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <future>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "engine/device/blocks.h"
#include "engine/device/device.h"
#include "engine/device/host_device.h"
#include "tests/engine/device_suite.h"
#include "zero/errors.h"

// An allocation that fails is a case here: sanitizers shall return null, not end the
// program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace zero::device_host_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using Clock = std::chrono::steady_clock;

INSTANTIATE_TEST_SUITE_P(Host, DeviceTest,
                         ::testing::Values(DeviceMaker{"host",
                                                       [](uint64_t chaos_seed) {
                                                         return make_host_device(
                                                             {.chaos_seed = chaos_seed});
                                                       }},
                                           DeviceMaker{"host_behind_its_caller",
                                                       [](uint64_t chaos_seed) {
                                                         return make_host_device(
                                                             {.chaos_seed = chaos_seed,
                                                              .async_compute = true});
                                                       }}),
                         [](const auto& info) { return info.param.name; });

class HostDeviceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Stream> stream(const std::string& name) {
    return device_->make_stream(name);
  }
  static void enqueue(Stream& stream, std::function<void()> operation) {
    as_host_stream(stream).enqueue(std::move(operation));
  }
  static void fail(Stream& stream, const std::string& why) {
    enqueue(stream, [why] { throw Error(ExitCode::kTraining, why); });
  }
  std::unique_ptr<Device> device_ = make_host_device();
};

TEST_F(HostDeviceTest, AStreamRunsItsWorkInOrder) {
  auto a = stream("a");
  std::vector<int> order, expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  for (int i = 0; i < 1000; ++i) enqueue(*a, [&order, i] { order.push_back(i); });
  a->synchronize();
  EXPECT_EQ(order, expected);
  EXPECT_EQ(a->name(), "a");
}

TEST_F(HostDeviceTest, TheComputeStreamIsTheCallingThread) {
  auto& compute = device_->compute_stream();
  std::thread::id runner;
  enqueue(compute, [&] { runner = std::this_thread::get_id(); });
  EXPECT_EQ(runner, std::this_thread::get_id());

  auto a = stream("a");
  Event event;
  int value = 0;
  enqueue(*a, [&] { value = 3; });
  a->record(event);
  compute.wait(event);
  EXPECT_EQ(value, 3);
  compute.record(event);
  EXPECT_TRUE(event.query());
}

TEST_F(HostDeviceTest, AnAsynchronousComputeStreamRunsBehindItsCaller) {
  device_ = make_host_device({.async_compute = true});
  Gate gate(*device_);
  auto& compute = device_->compute_stream();
  Event event;
  gate.hold(compute);
  compute.record(event);
  compute.wait(event);
  EXPECT_FALSE(event.query());
  gate.open();
  compute.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(HostDeviceTest, WhatIsQueuedToComputeIsDoneBeforeTheMemoryGoes) {
  device_ = make_host_device({.async_compute = true});
  auto* memory = static_cast<char*>(device_->allocate("large", 10 << 20));
  char seen = 0;
  memory[0] = 7;
  enqueue(device_->compute_stream(), [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    seen = memory[0];  // would be no memory any more
  });
  device_.reset();
  EXPECT_EQ(seen, 7);
}

TEST_F(HostDeviceTest, AFailureSkipsTheRestOfTheStream) {
  auto a = stream("a");
  bool has_run = false;
  fail(*a, "first");
  fail(*a, "second");
  enqueue(*a, [&] { has_run = true; });
  EXPECT_EQ(failure_of([&] { a->synchronize(); }), "first");
  EXPECT_EQ(failure_of([&] { a->synchronize(); }), "first");
  EXPECT_FALSE(has_run);
}

TEST_F(HostDeviceTest, AFailureTravelsAlongEvents) {
  auto a = stream("a"), b = stream("b"), c = stream("c");
  Event from_a, from_b;
  fail(*a, "no memory");
  a->record(from_a);
  b->wait(from_a);
  b->record(from_b);
  c->wait(from_b);
  EXPECT_EQ(failure_of([&] { c->synchronize(); }), "no memory");
  EXPECT_EQ(failure_of([&] { from_b.synchronize(); }), "no memory");
  EXPECT_EQ(failure_of([&] { device_->compute_stream().wait(from_a); }), "no memory");
  EXPECT_TRUE(from_a.query());
}

TEST_F(HostDeviceTest, AnEventRecordedBeforeAFailureIsGood) {
  auto a = stream("a");
  Event before;
  a->record(before);
  fail(*a, "later");
  EXPECT_EQ(failure_of([&] { before.synchronize(); }), "");
  EXPECT_EQ(failure_of([&] { a->synchronize(); }), "later");
}

TEST_F(HostDeviceTest, APointTellsOnceItIsReached) {
  auto a = stream("a");
  std::promise<void> opened;
  enqueue(*a, [&] { opened.get_future().wait(); });
  Event event;
  a->record(event);
  const auto& point = dynamic_cast<const HostPoint&>(*event.latest());
  std::atomic<int> num_told = 0;
  const auto count = [&](const std::exception_ptr& failure) {
    EXPECT_FALSE(failure);
    ++num_told;
  };
  point.tell(count);
  point.tell(count);
  EXPECT_EQ(num_told, 0);
  opened.set_value();
  a->synchronize();
  EXPECT_EQ(num_told, 2);
  point.tell(count);
  EXPECT_EQ(num_told, 3);
}

TEST_F(HostDeviceTest, APointTellsTheFailureBeforeIt) {
  auto a = stream("a");
  fail(*a, "no memory");
  Event event;
  a->record(event);
  EXPECT_EQ(failure_of([&] { a->synchronize(); }), "no memory");
  std::exception_ptr told;
  dynamic_cast<const HostPoint&>(*event.latest())
      .tell([&](const std::exception_ptr& failure) { told = failure; });
  EXPECT_EQ(failure_of([&] { std::rethrow_exception(told); }), "no memory");
}

TEST_F(HostDeviceTest, AStreamFinishesItsQueueBeforeItEnds) {
  std::atomic<int> num_run = 0;
  auto a = stream("a");
  for (int i = 0; i < 100; ++i) enqueue(*a, [&] { ++num_run; });
  a.reset();
  EXPECT_EQ(num_run, 100);
}

TEST_F(HostDeviceTest, InlineStreamsThrowToTheirCaller) {
  auto inline_stream = make_inline_stream("control");
  EXPECT_EQ(failure_of([&] { fail(*inline_stream, "now"); }), "now");
  int from = 4, to = 0;
  inline_stream->copy(&to, &from, sizeof(int));  // and go on
  EXPECT_EQ(to, 4);
}

TEST_F(HostDeviceTest, AThreadHasTheBeginningOfALongName) {
  char name[16] = "";
  const auto worker = stream("communication of gradients");
  enqueue(*worker, [&] { pthread_getname_np(pthread_self(), name, sizeof name); });
  worker->synchronize();
  EXPECT_STREQ(name, "communication o");
}

TEST_F(HostDeviceTest, LargeBlocksBeginOnHugePages) {
  constexpr int64_t kHugePage = 2 << 20;
  for (const int64_t bytes : {kHugePage, 5 * kHugePage + 1}) {
    void* memory = device_->allocate("large", bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHugePage, 0u) << bytes;
    device_->free(memory);
  }
}

TEST(Blocks, AreToldByOwnerTheLargestFirst) {
  char memory[3];
  Blocks blocks;
  EXPECT_EQ(blocks.by_owner(), "nothing");
  blocks.add(&memory[0], "ring", 1 << 20);
  blocks.add(&memory[1], "shards", 3 << 20);
  blocks.add(&memory[2], "ring", 1 << 20);
  EXPECT_EQ(blocks.by_owner(), "shards 3 MiB, ring 2 MiB");
  blocks.remove(&memory[1]);
  EXPECT_EQ(blocks.bytes(), 2 << 20);
}

// The delays of a stream's first operations, in microseconds.
std::vector<int64_t> delays_of(uint64_t seed, const std::string& stream, int64_t max_us,
                               int num_operations) {
  Chaos chaos(seed, stream, max_us);
  std::vector<int64_t> delays;
  for (int i = 0; i < num_operations; ++i) delays.push_back(chaos.draw_us());
  return delays;
}

TEST(ChaosTest, DelaysFollowFromSeedStreamAndNumber) {
  const std::vector<int64_t> delays = delays_of(1, "a", 300, 200);
  EXPECT_EQ(delays_of(1, "a", 300, 200), delays);
  EXPECT_NE(delays_of(2, "a", 300, 200), delays);
  EXPECT_NE(delays_of(1, "b", 300, 200), delays);
  EXPECT_THAT(delays, Each(AllOf(Ge(0), Le(300))));
}

TEST(ChaosTest, SomeOperationsAreLateAndSomeAreNot) {
  const std::vector<int64_t> delays = delays_of(1, "a", 300, 200);
  EXPECT_NEAR(std::count(delays.begin(), delays.end(), 0), 100, 40);
  EXPECT_GT(*std::max_element(delays.begin(), delays.end()), 250);
}

TEST(ChaosTest, SeedZeroNeverDelays) {
  EXPECT_THAT(delays_of(0, "a", 300, 200), Each(0));
  EXPECT_EQ(Chaos().draw_us(), 0);
}

// A sleep may last longer, never shorter.
TEST_F(HostDeviceTest, ChaosDelaysTheOperationsOfEveryStream) {
  device_ = make_host_device({.chaos_seed = 1, .max_chaos_delay_us = 2000});
  auto a = stream("a");
  for (Stream* each : {a.get(), &device_->compute_stream()}) {
    const std::vector<int64_t> delays = delays_of(1, each->name(), 2000, 20);
    const auto begin = Clock::now();
    for (int i = 0; i < 20; ++i) enqueue(*each, [] {});
    each->synchronize();
    const std::chrono::microseconds all(
        std::accumulate(delays.begin(), delays.end(), int64_t{0}));
    EXPECT_GT(all.count(), 0);
    EXPECT_GE(Clock::now() - begin, all) << each->name();
  }
}

class DelaysTest : public ::testing::Test {
 protected:
  static constexpr int kAnHour = 3'600'000;  // so long that the test would never end
  ~DelaysTest() override { set_delays({}); }
};

TEST_F(DelaysTest, ANamedPointIsSlow) {
  set_delays({{"somewhere", 20}});
  const auto begin = Clock::now();
  delay_point("somewhere");
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(20));
}

TEST_F(DelaysTest, OtherPointsAreNotSlow) {
  set_delays({{"somewhere", kAnHour}});
  for (const char* other : {"elsewhere", "some", "somewhere else", ""})
    delay_point(other);
}

TEST_F(DelaysTest, NewDelaysReplaceTheOldOnes) {
  set_delays({{"the old place", kAnHour}});
  set_delays({{"the new place", 1}});
  delay_point("the old place");
  set_delays({{"the new place", kAnHour}});
  set_delays({});
  delay_point("the new place");
}

}  // namespace
}  // namespace zero::device_host_test
