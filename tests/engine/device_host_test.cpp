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

#include "engine/device/delays.h"
#include "engine/device/device.h"
#include "engine/device/host_device.h"
#include "engine/errors.h"

// An allocation that fails is a case here: sanitizers shall return null, not end the
// program.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace zero {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using Clock = std::chrono::steady_clock;

// A gate that a queued operation waits at until the test opens it.
class Gate {
 public:
  void open() { promise_.set_value(); }
  std::function<void()> waiter() const {
    return [opened = opened_] { opened.wait(); };
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

class HostDeviceTest : public testing::Test {
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
  static std::string failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
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

TEST_F(HostDeviceTest, QueueingDoesNotBlockTheHost) {
  Gate gate;
  auto a = stream("a");
  Event event;
  enqueue(*a, gate.waiter());
  a->record(event);
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_F(HostDeviceTest, AStreamWaitsForTheEventOfAnother) {
  Gate gate;
  auto producer = stream("producer"), consumer = stream("consumer");
  Event ready;
  int value = 0, seen = 0;
  enqueue(*producer, gate.waiter());
  enqueue(*producer, [&] { value = 7; });
  producer->record(ready);
  consumer->wait(ready);
  consumer->copy(&seen, &value, sizeof(int));
  gate.open();
  consumer->synchronize();
  EXPECT_EQ(seen, 7);
}

TEST_F(HostDeviceTest, AnEventNeverRecordedIsComplete) {
  Event event;
  auto a = stream("a");
  EXPECT_TRUE(event.query());
  event.synchronize();
  a->wait(event);
  a->synchronize();
  device_->compute_stream().wait(event);
}

TEST_F(HostDeviceTest, AWaitMeansTheRecordAtTheTimeOfTheWait) {
  Gate second_gate;
  auto a = stream("a"), b = stream("b");
  Event event;
  a->record(event);
  b->wait(event);                     // the first record
  enqueue(*a, second_gate.waiter());  // the second one stays pending
  a->record(event);
  b->synchronize();
  EXPECT_FALSE(event.query());
  second_gate.open();
  event.synchronize();
}

TEST_F(HostDeviceTest, AnEventMayDieBeforeItsRecordIsReached) {
  Gate gate;
  auto a = stream("a"), b = stream("b");
  std::optional<Event> event(std::in_place);
  enqueue(*a, gate.waiter());
  a->record(*event);
  b->wait(*event);
  event.reset();
  gate.open();
  b->synchronize();
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
  Gate gate;
  auto& compute = device_->compute_stream();
  Event event;
  enqueue(compute, gate.waiter());
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

TEST_F(HostDeviceTest, CountsWhatIsAllocated) {
  void* small = device_->allocate("small", 100);
  void* large = device_->allocate("large", 10 << 20);
  void* empty = device_->allocate("empty", 0);
  EXPECT_EQ(device_->allocated_bytes(), 100 + (10 << 20));
  for (void* memory : {small, large, empty}) {
    EXPECT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  }
  std::memset(large, 1, 10 << 20);
  for (void* memory : {small, large, empty}) device_->free(memory);
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(HostDeviceTest, BlocksOfAnySizeAreAligned) {
  for (int64_t bytes = 1; bytes < 2000; bytes += 61) {
    void* memory = device_->allocate("block", bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u) << bytes;
  }
}

TEST_F(HostDeviceTest, AnAllocationTooLargeNamesItself) {
  EXPECT_THAT(failure_of([&] { device_->allocate("the ring", int64_t{1} << 60); }),
              HasSubstr("1152921504606846976 bytes"));
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_F(HostDeviceTest, PoisonDoesNothingByDefault) {
  auto a = stream("a");
  float value = 1;
  device_->poison(&value, sizeof(value), *a);
  a->synchronize();
  EXPECT_EQ(value, 1);
}

TEST_F(HostDeviceTest, ChaosFillsReleasedMemoryWithNanInStreamOrder) {
  device_ = make_host_device({.chaos_seed = 1});
  Gate gate;
  auto a = stream("a");
  std::vector<float> values(3, 1.0f);
  uint16_t bf16 = 0;
  enqueue(*a, gate.waiter());
  device_->poison(values.data(), 12, *a);
  device_->poison(&bf16, 2, *a);
  EXPECT_EQ(values[0], 1);
  gate.open();
  a->synchronize();
  for (float value : values) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(bf16, 0xFFFF);
}

TEST_F(HostDeviceTest, ChaosKeepsWhatEventsOrder) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    device_ = make_host_device({.chaos_seed = seed, .max_chaos_delay_us = 100});
    auto a = stream("a"), b = stream("b");
    Event filled, drained;
    int slot = -1;
    std::vector<int> seen;
    for (int i = 0; i < 50; ++i) {  // a ring of one slot
      a->wait(drained);
      enqueue(*a, [&slot, i] { slot = i; });
      a->record(filled);
      b->wait(filled);
      enqueue(*b, [&] { seen.push_back(slot); });
      device_->poison(&slot, sizeof(slot), *b);
      b->record(drained);
    }
    b->synchronize();
    std::vector<int> expected(50);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
    a->synchronize();
  }
}

TEST_F(HostDeviceTest, ManyThreadsMayQueueAndWait) {
  auto shared = stream("shared");
  int counter = 0;  // only the stream's worker touches it
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        auto own = device_->make_stream("own");
        Event event;
        for (int i = 0; i < 200; ++i) {
          enqueue(*shared, [&] { ++counter; });
          shared->record(event);
          own->wait(event);
        }
        own->synchronize();
      });
    }
  }
  shared->synchronize();
  EXPECT_EQ(counter, 800);
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

class DelaysTest : public testing::Test {
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

TEST(NoCudaTest, SaysWhatToDo) {
  if (num_cuda_devices() > 0) GTEST_SKIP() << "this machine has a GPU";
  try {
    make_cuda_device(0);
    FAIL() << "there is no GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kEnvironment);
    EXPECT_THAT(error.cure(), HasSubstr("--device cpu"));
  }
}

}  // namespace
}  // namespace zero
