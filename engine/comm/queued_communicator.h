#pragma once
#include <functional>
#include <memory>

#include "engine/comm/communicator.h"
#include "engine/comm/transport.h"
#include "engine/device/host_event.h"

namespace zero {

// A Communicator of host memory over any Transport: numbers the calls and queues them on
// streams of the host.
//
// Calls on several streams still run in the order in which they were made. The first
// failure ends the communicator: later calls throw it again, and the other ranks are
// told. The destructor leaves the group; calls still queued fail.
class QueuedCommunicator final : public Communicator {
 public:
  explicit QueuedCommunicator(std::unique_ptr<Transport> transport);
  ~QueuedCommunicator() override;
  QueuedCommunicator(const QueuedCommunicator&) = delete;
  QueuedCommunicator& operator=(const QueuedCommunicator&) = delete;

  int rank() const override;
  int size() const override;
  void all_gather(const void* shard, void* full, int64_t shard_bytes,
                  const std::string& tag, Stream& stream) override;
  void reduce_scatter(const void* full, float* shard, int64_t shard_numel, WireType type,
                      const std::string& tag, Stream& stream) override;
  void all_reduce(std::span<int64_t> values, ReduceOp op, const std::string& tag,
                  Stream& stream) override;
  void all_reduce(std::span<double> values, ReduceOp op, const std::string& tag,
                  Stream& stream) override;
  void broadcast(void* data, int64_t bytes, int root, const std::string& tag,
                 Stream& stream) override;
  void barrier(const std::string& tag, Stream& stream) override;
  std::unique_ptr<Communicator> split(int color) override;
  std::unique_ptr<Communicator> duplicate() override;

  Transport& transport() { return *link_->transport; }

 private:
  // Outlives the communicator while calls are queued.
  struct Link {
    std::unique_ptr<Transport> transport;
    std::exception_ptr failure;

    void run(const Call& call, const std::function<void(Transport&)>& operation);
  };

  Call next_call(Operation operation, int variant, int64_t bytes, const std::string& tag);
  void queue(const Call& call, Stream& stream, std::function<void(Transport&)> operation);
  std::unique_ptr<Communicator> split_now(Operation operation, int color);

  std::shared_ptr<Link> link_;
  uint64_t num_calls_ = 0;
  HostEvent last_call_;  // orders calls on different streams
};

}  // namespace zero
