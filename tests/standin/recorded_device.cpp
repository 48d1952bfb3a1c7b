#include "tests/standin/recorded_device.h"

#include <string>
#include <utility>

#include "engine/device/cuda/cuda_stream.h"
#include "tests/standin/recording.h"

namespace standin {
namespace {

// A place in a worker's queue. Who waits for it is known when it waits.
class RecordedPoint final : public zero::HostPoint {
 public:
  explicit RecordedPoint(const std::shared_ptr<const zero::Point>& point)
      : point_(std::dynamic_pointer_cast<const zero::HostPoint>(point)) {}
  // So that what is recorded does not depend on when anything runs.
  bool is_reached() const override { return false; }
  void wait() const override {
    note_host_wait(this);
    point_->wait();
  }
  // By a wait of the GPU, which was queued just now.
  void tell(Reached reached) const override {
    note_after(latest_wait(), this);
    point_->tell(std::move(reached));
  }

 private:
  const std::shared_ptr<const zero::HostPoint> point_;
};

// Its thread has a name that another rank's has not.
class RecordedWorker final : public zero::HostStream {
 public:
  RecordedWorker(zero::Device& gpu, const std::string& name)
      : name_(name), worker_(gpu.make_worker(name + ", recorded")) {}

  const std::string& name() const override { return name_; }
  void enqueue(std::function<void()> operation) override {
    run(note_work(name_, {}), std::move(operation));
  }
  void record(zero::Event& event) override {
    zero::Event own;
    worker_->record(own);
    const auto point = std::make_shared<RecordedPoint>(own.latest());
    note_record(name_, point.get());
    event.renew(point);
  }
  void wait(const zero::Event& event) override {
    if (auto point = event.latest()) run(note_wait(name_), [point] { point->wait(); });
  }
  std::shared_ptr<const zero::Stamp> stamp() override { return worker_->stamp(); }
  void synchronize() override {
    zero::Event end;
    record(end);
    end.synchronize();
  }

 private:
  void run(CallNumber call, std::function<void()> operation) {
    worker_->enqueue([call, operation = std::move(operation)] {
      const Running running(call);
      operation();
    });
  }

  const std::string name_;
  const std::unique_ptr<zero::HostStream> worker_;
};

class RecordedDevice final : public zero::Device {
 public:
  explicit RecordedDevice(std::unique_ptr<zero::Device> gpu) : gpu_(std::move(gpu)) {}

  int gpu_index() const override { return gpu_->gpu_index(); }
  std::unique_ptr<zero::Stream> make_stream(const std::string& name) override {
    auto stream = gpu_->make_stream(name);
    name_stream(zero::as_cuda_stream(*stream).handle(), name);
    return stream;
  }
  std::unique_ptr<zero::HostStream> make_worker(const std::string& name) override {
    return std::make_unique<RecordedWorker>(*gpu_, name);
  }
  zero::Stream& compute_stream() override { return gpu_->compute_stream(); }
  void* allocate(const std::string& name, int64_t bytes) override {
    void* const memory = gpu_->allocate(name, bytes);
    name_memory(memory, bytes, name);
    return memory;
  }
  void free(void* memory) override { gpu_->free(memory); }
  int64_t allocated_bytes() const override { return gpu_->allocated_bytes(); }
  Copied copied() const override { return gpu_->copied(); }
  void pin(void* memory, int64_t bytes) override { gpu_->pin(memory, bytes); }
  void unpin(void* memory) override { gpu_->unpin(memory); }
  void decode(const zero::Decoding& decoding, zero::ThreadPool& threads,
              zero::Stream& stream) override {
    gpu_->decode(decoding, threads, stream);
  }
  uint64_t hash(const void* memory, int64_t bytes, zero::Stream& stream) override {
    return gpu_->hash(memory, bytes, stream);
  }
  void poison(void* memory, int64_t bytes, zero::Stream& stream) override {
    gpu_->poison(memory, bytes, stream);
  }

 private:
  const std::unique_ptr<zero::Device> gpu_;
};

}  // namespace

std::unique_ptr<zero::Device> recorded(std::unique_ptr<zero::Device> gpu) {
  return std::make_unique<RecordedDevice>(std::move(gpu));
}

}  // namespace standin
