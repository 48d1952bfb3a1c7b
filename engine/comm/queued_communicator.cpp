#include "engine/comm/queued_communicator.h"

#include "engine/activity.h"
#include "engine/comm/reduce_values.h"
#include "engine/device/delays.h"
#include "engine/device/host_device.h"

namespace zero {

QueuedCommunicator::QueuedCommunicator(std::unique_ptr<Transport> transport)
    : link_(std::make_shared<Link>()) {
  link_->transport = std::move(transport);
}

QueuedCommunicator::~QueuedCommunicator() {
  link_->transport->leave("its communicator was closed");
}

int QueuedCommunicator::rank() const { return link_->transport->rank(); }
int QueuedCommunicator::size() const { return link_->transport->size(); }

void QueuedCommunicator::all_gather(const void* shard, void* full, int64_t shard_bytes,
                                    const std::string& tag, Stream& stream) {
  const Call call = next_call(Operation::kAllGather, 0, shard_bytes, tag);
  queue(call, stream, [=](Transport& transport) {
    transport.all_gather(call, shard, full, shard_bytes);
  });
}

void QueuedCommunicator::reduce_scatter(const void* full, float* shard,
                                        int64_t shard_numel, WireType type,
                                        const std::string& tag, Stream& stream) {
  const int64_t bytes = shard_numel * (type == WireType::kFloat ? 4 : 2);
  const Call call =
      next_call(Operation::kReduceScatter, static_cast<int>(type), bytes, tag);
  queue(call, stream, [=](Transport& transport) {
    transport.reduce_scatter(call, full, shard, shard_numel, type);
  });
}

void QueuedCommunicator::all_reduce(std::span<int64_t> values, ReduceOp op,
                                    const std::string& tag, Stream& stream) {
  const Call call =
      next_call(Operation::kAllReduce, static_cast<int>(op), values.size_bytes(), tag);
  queue(call, stream,
        [=](Transport& transport) { reduce_values(transport, call, values, op); });
}

void QueuedCommunicator::all_reduce(std::span<double> values, ReduceOp op,
                                    const std::string& tag, Stream& stream) {
  const int variant = 16 + static_cast<int>(op);  // not to be taken for integers
  const Call call = next_call(Operation::kAllReduce, variant, values.size_bytes(), tag);
  queue(call, stream,
        [=](Transport& transport) { reduce_values(transport, call, values, op); });
}

void QueuedCommunicator::broadcast(void* data, int64_t bytes, int root,
                                   const std::string& tag, Stream& stream) {
  const Call call = next_call(Operation::kBroadcast, root, bytes, tag);
  queue(call, stream,
        [=](Transport& transport) { transport.broadcast(call, data, bytes, root); });
}

void QueuedCommunicator::barrier(const std::string& tag, Stream& stream) {
  const Call call = next_call(Operation::kBarrier, 0, 0, tag);
  queue(call, stream, [=](Transport& transport) { transport.barrier(call); });
}

std::unique_ptr<Communicator> QueuedCommunicator::split(int color) {
  return split_now(Operation::kSplit, color);
}

std::unique_ptr<Communicator> QueuedCommunicator::duplicate() {
  return split_now(Operation::kDuplicate, 0);
}

Call QueuedCommunicator::next_call(Operation operation, int variant, int64_t bytes,
                                   const std::string& tag) {
  return make_call(num_calls_++, operation, variant, bytes, tag);
}

void QueuedCommunicator::queue(const Call& call, Stream& stream,
                               std::function<void(Transport&)> operation) {
  HostStream& host_stream = as_host_stream(stream);
  host_stream.wait(last_call_);
  host_stream.enqueue([link = link_, operation = std::move(operation), call] {
    delay_point("comm." + name_of(call.operation));
    link->run(call, operation);
  });
  host_stream.record(last_call_);
}

std::unique_ptr<Communicator> QueuedCommunicator::split_now(Operation operation,
                                                            int color) {
  last_call_.synchronize();
  const Call call = next_call(operation, 0, 0, "");
  std::unique_ptr<Transport> part;
  link_->run(call, [&](Transport& transport) { part = transport.split(call, color); });
  return std::make_unique<QueuedCommunicator>(std::move(part));
}

void QueuedCommunicator::Link::run(const Call& call,
                                   const std::function<void(Transport&)>& operation) {
  if (failure) std::rethrow_exception(failure);
  const Activity::Waiting waiting(description_of(call));
  try {
    operation(*transport);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    transport->leave(error.what());
    throw;
  }
}

}  // namespace zero
