// What every Device does, on whatever kind.
#include "tests/engine/device_suite.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "engine/watch/trace.h"
#include "zero/errors.h"

namespace zero {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void DeviceTest::make(uint64_t chaos_seed) {
  if (device_) device_->unpin(host_.data());
  device_ = GetParam().make(chaos_seed);
  device_->pin(host_.data(), std::ssize(host_));
}

std::unique_ptr<HostStream> DeviceTest::failing_worker(
    const std::string& why, Event& after, const std::shared_future<void>& when) {
  auto worker = device_->make_worker("fails");
  worker->enqueue([why, when] {
    when.wait();
    throw Error(ExitCode::kTraining, why);
  });
  worker->record(after);
  return worker;
}

void DeviceTest::write(Stream& stream, int* to, int value) {
  int& source = on_host<int>(1)[0];
  source = value;
  stream.copy(to, &source, sizeof(int));
}

int DeviceTest::read(Stream& stream, const int* from) {
  int& value = on_host<int>(1)[0];
  stream.copy(&value, from, sizeof(int));
  stream.synchronize();
  return value;
}

TEST_P(DeviceTest, BytesComeBackAsTheyWent) {
  auto a = stream("a");
  const std::span<float> values = on_host<float>(100'000), back = on_host<float>(100'000);
  std::iota(values.begin(), values.end(), 1.0f);
  const auto bytes = static_cast<int64_t>(values.size_bytes());
  void* first = device_->allocate("first", bytes);
  void* second = device_->allocate("second", bytes);
  a->copy(first, values.data(), bytes);
  a->copy(second, first, bytes);
  a->set_bytes(first, 0, bytes);
  a->copy(back.data(), second, bytes);
  a->copy(back.data(), second, 0);
  a->synchronize();
  EXPECT_THAT(back, ElementsAreArray(values));
  a->copy(back.data(), first, bytes);
  a->synchronize();
  EXPECT_THAT(back, Each(0.0f));
  EXPECT_EQ(a->name(), "a");
}

TEST_P(DeviceTest, CountsWhatIsCopiedBetweenItsMemoryAndTheHosts) {
  auto a = stream("a");
  const std::span<std::byte> values = on_host<std::byte>(1000);
  auto* memory = static_cast<std::byte*>(device_->allocate("memory", 1000));
  void* const other = device_->allocate("other", 1000);
  a->copy(memory + 900, values.data(), 100);
  a->copy(other, memory, 1000);
  a->copy(values.data(), memory + 1, 30);
  a->copy(values.data(), values.data() + 500, 500);
  a->set_bytes(memory, 1, 1000);
  a->synchronize();
  const bool counts = device_->has_own_memory();
  EXPECT_EQ(device_->copied().in, counts ? 100 : 0);
  EXPECT_EQ(device_->copied().out, counts ? 30 : 0);
}

TEST_P(DeviceTest, AStampTellsWhenItsStreamGotThere) {
  auto a = stream("a");
  Gate gate(*device_);
  const int64_t begin = Trace::now_ns();
  const auto before = a->stamp();
  a->synchronize();  // a busy machine may come to it late
  gate.hold(*a);
  const auto after = a->stamp();
  EXPECT_FALSE(after->ns());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  gate.open();
  a->synchronize();
  const int64_t end = Trace::now_ns();
  ASSERT_TRUE(before->ns() && after->ns());
  constexpr int64_t kMs = 1'000'000;
  EXPECT_GE(*after->ns() - *before->ns(), 15 * kMs);
  // A GPU's clock may be read late, by as much as this thread has to wait for a core.
  constexpr int64_t kLate = 1000 * kMs;
  EXPECT_GE(*before->ns(), begin - kLate);
  EXPECT_LE(*after->ns(), end + kLate);
  EXPECT_EQ(after->ns(), after->ns());
  EXPECT_TRUE(device_->compute_stream().stamp());
}

TEST_P(DeviceTest, AStreamRunsItsWorkInOrder) {
  make(/*chaos_seed=*/2);
  auto a = stream("a");
  int* cell = new_int();
  const std::span<int> seen = on_host<int>(100);
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  for (int i = 0; i < 100; ++i) {
    write(*a, cell, i);
    a->copy(&seen[i], cell, sizeof(int));
  }
  a->synchronize();
  EXPECT_THAT(seen, ElementsAreArray(expected));
}

TEST_P(DeviceTest, QueueingDoesNotBlockTheHost) {
  Gate gate(*device_);
  auto a = stream("a");
  Event event;
  int* cell = new_int();
  gate.hold(*a);
  write(*a, cell, 1);
  a->record(event);
  EXPECT_FALSE(event.query());
  gate.open();
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST_P(DeviceTest, AStreamWaitsForTheEventOfAnother) {
  Gate gate(*device_);
  auto producer = stream("producer"), consumer = stream("consumer");
  Event ready;
  int* cell = new_int();
  gate.hold(*producer);
  write(*producer, cell, 7);
  producer->record(ready);
  consumer->wait(ready);
  int& seen = on_host<int>(1)[0];
  consumer->copy(&seen, cell, sizeof(int));
  gate.open();
  consumer->synchronize();
  EXPECT_EQ(seen, 7);
}

TEST_P(DeviceTest, ComputeAndItsNeighboursWaitForEachOther) {
  auto a = stream("a");
  Stream& compute = device_->compute_stream();
  Event in, computed;
  int* cell = new_int();
  write(*a, cell, 1);
  a->record(in);
  compute.wait(in);
  EXPECT_EQ(read(compute, cell), 1);
  write(compute, cell, 2);
  compute.record(computed);
  a->wait(computed);
  EXPECT_EQ(read(*a, cell), 2);
}

TEST_P(DeviceTest, AWorkerWaitsForTheDeviceAndTheDeviceForIt) {
  Gate gate(*device_);
  auto out = stream("out"), in = stream("in");
  auto worker = device_->make_worker("adds");
  Event copied, added;
  int* cell = new_int();
  int& value = on_host<int>(1)[0];
  gate.hold(*out);
  write(*out, cell, 20);
  out->copy(&value, cell, sizeof(int));
  out->record(copied);
  worker->wait(copied);
  worker->enqueue([&] { value += 3; });
  worker->record(added);
  EXPECT_FALSE(added.query());
  gate.open();
  out->synchronize();  // a GPU runs one function of the host at a time
  in->wait(added);
  in->copy(cell, &value, sizeof(int));
  EXPECT_EQ(read(*in, cell), 23);
}

TEST_P(DeviceTest, AHashIsOfWhatTheStreamHasLeftThere) {
  auto a = stream("a");
  int* cell = new_int();
  write(*a, cell, 20);
  const uint64_t of_20 = device_->hash(cell, sizeof(int), *a);
  write(*a, cell, 21);
  EXPECT_NE(device_->hash(cell, sizeof(int), *a), of_20);
  write(*a, cell, 20);
  EXPECT_EQ(device_->hash(cell, sizeof(int), *a), of_20);
}

TEST_P(DeviceTest, AnEventNeverRecordedIsReached) {
  Event event;
  auto a = stream("a");
  EXPECT_TRUE(event.query());
  event.synchronize();
  a->wait(event);
  a->synchronize();
  device_->compute_stream().wait(event);
}

TEST_P(DeviceTest, AWaitMeansTheRecordAtTheTimeOfTheWait) {
  Gate second(*device_);
  auto a = stream("a"), b = stream("b");
  auto worker = device_->make_worker("worker");
  Event event;
  a->record(event);
  b->wait(event);  // the first record
  worker->wait(event);
  second.hold(*a);  // the second one stays pending
  a->record(event);
  b->synchronize();
  worker->synchronize();
  EXPECT_FALSE(event.query());
  second.open();
  event.synchronize();
}

TEST_P(DeviceTest, AnEventMayDieBeforeItsRecordIsReached) {
  Gate gate(*device_);
  auto a = stream("a"), b = stream("b");
  std::optional<Event> event(std::in_place);
  gate.hold(*a);
  a->record(*event);
  b->wait(*event);
  event.reset();
  gate.open();
  b->synchronize();
}

TEST_P(DeviceTest, AFailureTravelsAlongEvents) {
  auto a = stream("a"), b = stream("b");
  auto worker = device_->make_worker("worker");
  Event failed, from_a, from_b;
  std::promise<void> all_is_queued;
  auto fails = failing_worker("no memory", failed, all_is_queued.get_future().share());
  a->wait(failed);
  a->record(from_a);
  b->wait(from_a);
  b->record(from_b);
  worker->wait(from_b);
  all_is_queued.set_value();
  EXPECT_THAT(failure_of([&] { worker->synchronize(); }), HasSubstr("no memory"));
  EXPECT_THAT(failure_of([&] { from_b.synchronize(); }), HasSubstr("no memory"));
  EXPECT_THAT(failure_of([&] { b->synchronize(); }), HasSubstr("no memory"));
  EXPECT_THAT(failure_of([&] { a->synchronize(); }), HasSubstr("no memory"));
  EXPECT_TRUE(from_a.query());
}

TEST_P(DeviceTest, CountsWhatIsAllocated) {
  void* small = device_->allocate("small", 100);
  void* large = device_->allocate("large", 10 << 20);
  void* empty = device_->allocate("empty", 0);
  EXPECT_EQ(device_->allocated_bytes(), 100 + (10 << 20));
  for (void* memory : {small, large, empty}) {
    EXPECT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
  }
  auto a = stream("a");
  a->set_bytes(large, 1, 10 << 20);
  a->synchronize();
  for (void* memory : {small, large, empty}) device_->free(memory);
  device_->free(nullptr);
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_P(DeviceTest, BlocksOfAnySizeAreAligned) {
  for (int64_t bytes = 1; bytes < 2000; bytes += 61) {
    void* memory = device_->allocate("block", bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u) << bytes;
  }
}

TEST_P(DeviceTest, AnAllocationTooLargeNamesItself) {
  EXPECT_THAT(failure_of([&] { device_->allocate("the ring", int64_t{1} << 60); }),
              AllOf(HasSubstr("1152921504606846976 bytes"), HasSubstr("the ring")));
  EXPECT_EQ(device_->allocated_bytes(), 0);
}

TEST_P(DeviceTest, PoisonDoesNothingByDefault) {
  auto a = stream("a");
  int* cell = new_int();
  write(*a, cell, 1);
  device_->poison(cell, sizeof(int), *a);
  EXPECT_EQ(read(*a, cell), 1);
}

TEST_P(DeviceTest, ChaosFillsReleasedMemoryWithNanInStreamOrder) {
  make(/*chaos_seed=*/1);
  Gate gate(*device_);
  auto a = stream("a"), b = stream("b");
  int* cell = new_int();
  write(*b, cell, 1);
  b->synchronize();
  gate.hold(*a);
  device_->poison(cell, sizeof(int), *a);
  EXPECT_EQ(read(*b, cell), 1);
  gate.open();
  const int bits = read(*a, cell);
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  EXPECT_TRUE(std::isnan(value));
}

TEST_P(DeviceTest, ChaosKeepsWhatEventsOrder) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    make(seed);
    auto in = stream("in"), out = stream("out");
    auto worker = device_->make_worker("worker");
    Event filled, drained, added;
    int* slot = new_int();
    const std::span<int> seen = on_host<int>(50);
    std::vector<int> expected(50);
    for (int i = 0; i < 50; ++i) {  // a ring of one slot, and a sum that is fed again
      in->wait(drained);
      write(*in, slot, i);
      in->record(filled);
      out->wait(filled);
      out->copy(&seen[i], slot, sizeof(int));
      device_->poison(slot, sizeof(int), *out);
      out->record(drained);
      worker->wait(drained);
      worker->enqueue([seen, i] { seen[i] += i == 0 ? 0 : seen[i - 1]; });
      expected[i] = i + (i == 0 ? 0 : expected[i - 1]);
    }
    worker->synchronize();
    EXPECT_THAT(seen, ElementsAreArray(expected));
    in->synchronize();
  }
}

TEST_P(DeviceTest, ManyThreadsMayQueueAndWait) {
  auto shared = stream("shared");
  int* cell = new_int();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        auto own = stream("own");
        Event event;
        for (int i = 0; i < 100; ++i) {
          shared->set_bytes(cell, 1, sizeof(int));
          shared->record(event);
          own->wait(event);
        }
        own->synchronize();
      });
    }
  }
  EXPECT_EQ(read(*shared, cell), 0x01010101);
}

}  // namespace zero
