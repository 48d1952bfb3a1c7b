#include <vector>

#include "engine/comm/channel.h"
#include "engine/comm/collectives.h"
#include "engine/comm/transport.h"
#include "engine/device/device.h"
#include "engine/device/host_device.h"
#include "zero/errors.h"

namespace zero {
namespace {

class HostCollectives final : public Collectives {
 public:
  explicit HostCollectives(std::unique_ptr<Channel> channel)
      : channel_(std::move(channel)) {}
  ~HostCollectives() override { channel_->close(); }

  int rank() const override { return channel_->transport().rank(); }
  int size() const override { return channel_->transport().size(); }

  void all_gather(std::span<const GatheredArray> arrays, const std::string& tag,
                  Stream& stream) override {
    const RankCall call =
        channel_->next_call(Operation::kAllGather, static_cast<int>(arrays.size()) - 1,
                            bytes_of_shards(arrays), tag);
    queue(call, stream,
          [call, all = std::vector(arrays.begin(), arrays.end())](Transport& transport) {
            transport.all_gather(call, all);
          });
  }

  void reduce_scatter(void* full, float* shard, int64_t shard_numel, DType type,
                      SumOrder order, const std::string& tag, Stream& stream,
                      const SummedPiece& summed) override {
    const int variant = 2 * static_cast<int>(type) + static_cast<int>(order);
    const RankCall call = channel_->next_call(Operation::kReduceScatter, variant,
                                              shard_numel * size_of(type), tag);
    queue(call, stream, [=](Transport& transport) {
      transport.reduce_scatter(call, full, shard, shard_numel, type, summed);
    });
  }

  void all_reduce(std::span<double> values, SumOrder order, const std::string& tag,
                  Stream& stream) override {
    const RankCall call = channel_->next_call(
        Operation::kAllReduce, static_cast<int>(order), std::ssize(values) * 8, tag);
    queue(call, stream, [=](Transport& transport) {
      reduce_values(transport, call, values, ReduceOp::kSum);
    });
  }

 private:
  void queue(const RankCall& call, Stream& stream,
             std::function<void(Transport&)> operation) {
    HostStream& host_stream = as_host_stream(stream);
    host_stream.wait(last_call_);
    host_stream.enqueue([channel = channel_, call, operation = std::move(operation)] {
      channel->run(call, operation);
    });
    host_stream.record(last_call_);
  }

  const std::shared_ptr<Channel> channel_;  // outlives us while calls are queued
  // Orders calls on different streams.
  Event last_call_;
};

class LoneCollectives final : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_gather(std::span<const GatheredArray> arrays, const std::string&,
                  Stream& stream) override {
    for (const auto& [shard, full, bytes] : arrays)
      if (shard != full) stream.copy(full, shard, bytes);
  }

  // Types differ, and the sum has to be made somewhere: that is the caller's.
  void reduce_scatter(void*, float*, int64_t, DType, SumOrder, const std::string& tag,
                      Stream&, const SummedPiece&) override {
    throw Error(ExitCode::kEnvironment, "one rank has nothing to reduce", tag, "");
  }

  void all_reduce(std::span<double>, SumOrder, const std::string&, Stream&) override {}
};

}  // namespace

std::unique_ptr<Collectives> make_host_collectives(std::unique_ptr<Channel> channel) {
  return std::make_unique<HostCollectives>(std::move(channel));
}

std::unique_ptr<Collectives> make_lone_collectives() {
  return std::make_unique<LoneCollectives>();
}

}  // namespace zero
