// The device for GPUs, on one that the test made (standin.h).
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "engine/device/cuda/cuda_device.h"
#include "tests/engine/device_suite.h"
#include "tests/standin/standin.h"
#include "zero/errors.h"

namespace zero::device_standin_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<Device> make_device(uint64_t chaos_seed) {
  return make_cuda_device(0, {.chaos_seed = chaos_seed});
}

// Of streams that wait for numbers, or for functions of the host.
DeviceMaker maker(const std::string& name, uint64_t delays, bool has_wait_values) {
  return {name, [=](uint64_t chaos_seed) {
            standin::set_chaos(delays);
            standin::set_wait_values(has_wait_values, /*takes=*/true);
            return make_device(chaos_seed);
          }};
}

INSTANTIATE_TEST_SUITE_P(Standin, DeviceTest,
                         ::testing::Values(maker("in_time", 0, true),
                                           maker("late", 7, true),
                                           maker("in_time_by_functions", 0, false),
                                           maker("late_by_functions", 7, false)),
                         [](const auto& info) { return info.param.name; });

class CudaDeviceTest : public ::testing::Test {
 protected:
  CudaDeviceTest() { standin::reset(); }

  void make() { device_ = make_device(0); }
  Error error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "nothing was thrown";
    return Error(ExitCode::kDone, "");
  }

  static constexpr int kClock = 1;  // an event of the device's own

  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, GivesBackWhatItTook) {
  make();
  std::vector<float> values(10);
  {
    device_->pin(values.data(), 40);
    EXPECT_EQ(standin::num_pinned(), 1);
    device_->unpin(values.data());
    EXPECT_EQ(standin::num_pinned(), 0);
    device_->allocate("ring", 1000);
    auto a = device_->make_stream("a");
    Event one, other;
    a->record(one);
    a->record(other);
    device_->compute_stream().wait(one);
    EXPECT_EQ(standin::num_streams(), 1);
    EXPECT_EQ(standin::num_gates(), 2) << "compute's, too";
    EXPECT_EQ(standin::num_events(), 2 + kClock);
    EXPECT_EQ(standin::allocated_bytes(), 1000);
  }
  device_.reset();
  EXPECT_EQ(standin::num_streams(), 0);
  EXPECT_EQ(standin::num_gates(), 0);
  EXPECT_EQ(standin::num_events(), 0);
  EXPECT_EQ(standin::allocated_bytes(), 0);
}

TEST_F(CudaDeviceTest, EventsAreUsedAgain) {
  make();
  auto a = device_->make_stream("a");
  Event event;
  for (int i = 0; i < 100; ++i) {
    a->record(event);
    device_->compute_stream().wait(event);
  }
  EXPECT_LE(standin::num_events(), 2 + kClock);
}

// After a second it counts from a later event.
TEST_F(CudaDeviceTest, ItsClockGoesAlong) {
  make();
  auto a = device_->make_stream("a");
  const auto early = a->stamp();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  const auto late = a->stamp();
  a->synchronize();
  const int waits = standin::num_host_waits();
  ASSERT_TRUE(late->ns());
  const auto next = a->stamp();
  while (!next->ns()) std::this_thread::yield();
  EXPECT_GE(*late->ns() - *early->ns(), 1'000'000'000);
  EXPECT_GE(*next->ns(), *late->ns());
  EXPECT_LT(*next->ns() - *late->ns(), 1'000'000'000);
  EXPECT_EQ(standin::num_host_waits(), waits);
}

TEST_F(CudaDeviceTest, StreamsWaitForEachOtherWithoutTheHost) {
  make();
  auto a = device_->make_stream("a"), b = device_->make_stream("b");
  auto worker = device_->make_worker("worker");
  Event event, of_host;
  const int before = standin::num_host_waits();
  for (int i = 0; i < 20; ++i) {
    a->record(event);
    b->wait(event);
    device_->compute_stream().wait(event);
    worker->record(of_host);
    a->wait(of_host);
  }
  EXPECT_EQ(standin::num_host_waits(), before);
  a->synchronize();
  EXPECT_EQ(standin::num_host_waits(), before + 1);
}

TEST_F(CudaDeviceTest, OutOfMemorySaysWhoHoldsWhat) {
  standin::set_memory(100 << 20);
  make();
  device_->allocate("gather ring", 30 << 20);
  device_->allocate("gather ring", 30 << 20);
  void* small = device_->allocate("gradient ring", 20 << 20);
  const Error error = error_of([&] { device_->allocate("root weights", 21 << 20); });
  EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  EXPECT_THAT(error.problem(),
              AllOf(HasSubstr("cannot allocate 22020096 bytes of the GPU's memory"),
                    HasSubstr("20971520 of 104857600 are free"),
                    HasSubstr("gather ring 60 MiB, gradient ring 20 MiB")));
  EXPECT_EQ(error.where(), "root weights");
  EXPECT_THAT(error.cure(), HasSubstr("zero_launch plan"));
  device_->free(small);
  device_->allocate("root weights", 21 << 20);  // and goes on
}

TEST_F(CudaDeviceTest, WhatCudaRefusesSaysWhatWasBeingDone) {
  make();
  auto copies = device_->make_stream("copy in");
  int value = 0;
  int* cell = static_cast<int*>(device_->allocate("cell", sizeof(int)));
  standin::fail_next("cudaMemcpyAsync", cudaErrorInvalidValue);
  const Error error = error_of([&] { copies->copy(cell, &value, sizeof(int)); });
  EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("a copy in stream copy in"), HasSubstr("--device cpu")));
  copies->copy(cell, &value, sizeof(int));
  copies->synchronize();
}

TEST_F(CudaDeviceTest, EveryCallsRefusalIsThrown) {
  make();
  auto a = device_->make_stream("a");
  standin::set_wait_values(/*has=*/true, /*takes=*/false);
  auto by_functions = device_->make_stream("by functions");
  standin::set_wait_values(/*has=*/true, /*takes=*/true);
  auto worker = device_->make_worker("worker");
  Event recorded, of_host, event;
  std::vector<float> values(10);
  a->record(recorded);
  std::promise<void> opened;
  worker->enqueue([&] { opened.get_future().wait(); });
  worker->record(of_host);
  int* cell = static_cast<int*>(device_->allocate("cell", sizeof(int)));
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"cudaSetDevice", [&] { a->set_bytes(cell, 0, 4); }},
      {"cudaMemsetAsync", [&] { a->set_bytes(cell, 0, 4); }},
      {"cudaEventRecord", [&] { a->record(event); }},
      {"cudaStreamWaitEvent", [&] { a->wait(recorded); }},
      {"cuStreamWaitValue32", [&] { a->wait(of_host); }},
      {"cudaLaunchHostFunc", [&] { by_functions->wait(of_host); }},
      {"cudaStreamSynchronize",
       [&, is_open = false]() mutable {
         if (!std::exchange(is_open, true)) opened.set_value();
         a->synchronize();
       }},
      {"cudaStreamCreateWithFlags", [&] { device_->make_stream("b"); }},
      {"cudaHostRegister",
       [&] {
         device_->pin(values.data(), 40);
         device_->unpin(values.data());
       }},
      {"cudaMalloc", [&] { device_->allocate("more", 4); }}};
  for (const auto& [name, call] : calls) {
    standin::fail_next(name, cudaErrorUnknown);
    EXPECT_EQ(error_of(call).code(), ExitCode::kEnvironment) << name;
    call();
  }
}

TEST_F(CudaDeviceTest, AWaitForWhatTheHostHasDoneCostsTheGpuNothing) {
  make();
  auto a = device_->make_stream("a");
  auto worker = device_->make_worker("worker");
  Event done;
  worker->record(done);
  worker->synchronize();
  standin::fail_next("cudaLaunchHostFunc", cudaErrorUnknown);
  standin::fail_next("cuStreamWaitValue32", cudaErrorUnknown);
  a->wait(done);
  a->synchronize();
}

// Two threads of the host, of which the second is ready first.
TEST_F(CudaDeviceTest, WaitsForTheHostEndInTheOrderOfTheStream) {
  for (const bool has : {true, false}) {
    standin::set_wait_values(has, /*takes=*/true);
    make();
    auto a = device_->make_stream("a");
    auto first = device_->make_worker("first"), second = device_->make_worker("second");
    std::promise<void> opened;
    Event of_first, of_second, behind_first, behind_both;
    first->enqueue([&] { opened.get_future().wait(); });
    first->record(of_first);
    std::promise<void> closed;
    second->enqueue([&] { closed.get_future().wait(); });
    second->record(of_second);
    a->wait(of_first);
    a->record(behind_first);
    a->wait(of_second);
    a->record(behind_both);
    closed.set_value();
    second->synchronize();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(behind_first.query()) << has;
    opened.set_value();
    a->synchronize();
    EXPECT_TRUE(behind_both.query());
  }
}

TEST_F(CudaDeviceTest, AFailureOfTheHostReachesWhoWaitedForIt) {
  for (const bool has : {true, false}) {
    standin::set_wait_values(has, /*takes=*/true);
    make();
    auto a = device_->make_stream("a");
    auto worker = device_->make_worker("worker");
    std::promise<void> opened;
    Event failed;
    worker->enqueue([&] {
      opened.get_future().wait();
      throw std::runtime_error("it broke");
    });
    worker->record(failed);
    a->wait(failed);
    opened.set_value();
    EXPECT_THROW(a->synchronize(), std::runtime_error) << has;
  }
}

TEST_F(CudaDeviceTest, AFailureOfTheHostThatIsOverReachesWhoWaits) {
  make();
  auto a = device_->make_stream("a");
  auto worker = device_->make_worker("worker");
  Event failed;
  worker->enqueue([] { throw std::runtime_error("it broke"); });
  worker->record(failed);
  EXPECT_THROW(failed.synchronize(), std::runtime_error);
  a->wait(failed);
  EXPECT_THROW(a->synchronize(), std::runtime_error);
}

TEST_F(CudaDeviceTest, AnErrorOfTheGpuReachesWhoWaits) {
  make();
  auto a = device_->make_stream("a"), b = device_->make_stream("b");
  auto worker = device_->make_worker("worker");
  Event event;
  int value = 0;
  int* cell = static_cast<int*>(device_->allocate("cell", sizeof(int)));
  Gate gate(*device_);  // the copy fails when all are waiting
  gate.hold(*a);
  standin::fail_when_run("cudaMemcpyAsync", cudaErrorIllegalAddress);
  a->copy(cell, &value, sizeof(int));
  a->record(event);
  worker->wait(event);
  gate.open();
  EXPECT_THAT(failure_of([&] { worker->synchronize(); }),
              AllOf(HasSubstr("illegal memory access"), HasSubstr("stream a")));
  EXPECT_THAT(failure_of([&] { event.synchronize(); }), HasSubstr("illegal"));
  EXPECT_TRUE(event.query());
  EXPECT_THAT(failure_of([&] { b->synchronize(); }), HasSubstr("illegal"));
  EXPECT_THAT(failure_of([&] { b->copy(cell, &value, sizeof(int)); }),
              Not(HasSubstr("no GPU")));
}

TEST_F(CudaDeviceTest, CopiesOfPinnedMemoryAloneRunBesideTheHost) {
  make();
  auto a = device_->make_stream("a");
  std::vector<float> values(10);
  void* memory = device_->allocate("memory", 40);
  a->copy(memory, values.data(), 40);
  EXPECT_EQ(standin::num_unpinned_copies(), 1);
  device_->pin(values.data(), 40);
  a->copy(values.data(), memory, 40);
  a->synchronize();
  EXPECT_EQ(standin::num_unpinned_copies(), 1);
  device_->unpin(values.data());
}

TEST_F(CudaDeviceTest, TheHostCannotReachMemoryOfTheGpu) {
  make();
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto* cell = static_cast<volatile int*>(device_->allocate("cell", sizeof(int)));
  EXPECT_DEATH(*cell = 1, "");
}

TEST_F(CudaDeviceTest, CountsTheGpusThatCanBeUsed) {
  EXPECT_EQ(count_cuda_devices(), 1);
  standin::set_count_error(cudaErrorNoDevice, 0);
  EXPECT_EQ(count_cuda_devices(), 0);
}

TEST_F(CudaDeviceTest, AnOldDriverIsNamed) {
  standin::set_count_error(cudaErrorInsufficientDriver, 0);
  const Error error = error_of([] { count_cuda_devices(); });
  EXPECT_EQ(error.code(), ExitCode::kEnvironment);
  EXPECT_THAT(error.problem(), AllOf(HasSubstr("CUDA 12.2"), HasSubstr("13.0")));
  EXPECT_THAT(error.cure(), AllOf(HasSubstr("driver"), HasSubstr("--device cpu")));
}

TEST_F(CudaDeviceTest, AnOldGpuIsNamed) {
  standin::set_capability(7, 5);
  const Error error = error_of([] { count_cuda_devices(); });
  EXPECT_THAT(error.problem(), HasSubstr("7.5"));
  EXPECT_THAT(error.cure(), HasSubstr("--device cpu"));
}

}  // namespace
}  // namespace zero::device_standin_test
