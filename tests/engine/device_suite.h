#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/device/device.h"

namespace zero {

// A kind of device, for the cases in device_suite.cpp.
struct DeviceMaker {
  std::string name;
  std::function<std::unique_ptr<Device>(uint64_t chaos_seed)> make;
};

inline void PrintTo(const DeviceMaker& maker, std::ostream* out) { *out << maker.name; }

// Holds streams back until the test opens it.
class Gate {
 public:
  explicit Gate(Device& device) : worker_(device.make_worker("gate")) {
    worker_->enqueue([opened = opened_] { opened.wait(); });
    worker_->record(passed_);
  }
  ~Gate() {
    if (!is_open_) open();
  }

  void hold(Stream& stream) { stream.wait(passed_); }
  void open() {
    is_open_ = true;
    promise_.set_value();
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
  bool is_open_ = false;
  Event passed_;
  std::unique_ptr<HostStream> worker_;
};

// What the call's Error says, or "".
std::string failure_of(const std::function<void()>& call);

class DeviceTest : public ::testing::TestWithParam<DeviceMaker> {
 protected:
  DeviceTest() { make(/*chaos_seed=*/0); }
  ~DeviceTest() override { device_->unpin(host_.data()); }

  // Anew.
  void make(uint64_t chaos_seed);
  std::unique_ptr<Stream> stream(const std::string& name) {
    return device_->make_stream(name);
  }
  // A worker that fails, at `when`, and an event after that.
  std::unique_ptr<HostStream> failing_worker(const std::string& why, Event& after,
                                             const std::shared_future<void>& when);

  int* new_int() { return static_cast<int*>(device_->allocate("an int", sizeof(int))); }
  // Pinned memory of the host, until the end of the test.
  template <typename T>
  std::span<T> on_host(int64_t numel);
  void write(Stream& stream, int* to, int value);
  // Waits for all of the stream.
  int read(Stream& stream, const int* from);

  std::unique_ptr<Device> device_;

 private:
  std::vector<std::byte> host_ = std::vector<std::byte>(1 << 20);
  int64_t num_host_bytes_ = 0;  // in use
};

template <typename T>
std::span<T> DeviceTest::on_host(int64_t numel) {
  auto* values = reinterpret_cast<T*>(host_.data() + num_host_bytes_);
  num_host_bytes_ += numel * static_cast<int64_t>(sizeof(T));
  EXPECT_LE(num_host_bytes_, std::ssize(host_));
  return {values, static_cast<size_t>(numel)};
}

}  // namespace zero
