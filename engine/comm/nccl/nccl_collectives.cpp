// Collectives among GPUs. Ranks agree on each call through the host's memory, in a thread
// of its own, and the stream waits for that before NCCL's work begins.
#include <algorithm>
#include <cassert>

#include "engine/comm/channel.h"
#include "engine/comm/collectives.h"
#include "engine/comm/nccl/nccl_communicator.h"
#include "engine/comm/transport.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/kernels.h"
#include "zero/ranks.h"

namespace zero {
namespace {

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(Ranks& ranks, Device& gpu, std::byte* exchange, int64_t exchange_bytes)
      : channel_(ranks.channel().split(Operation::kDuplicate, 0)),
        gpu_(gpu),
        exchange_(exchange),
        exchange_bytes_(exchange_bytes),
        nccl_(std::make_shared<NcclCommunicator>(ranks, owner(gpu))),
        worker_(gpu.make_worker("agreement")) {}
  ~NcclCollectives() override { channel_->close(); }

  int rank() const override { return channel_->transport().rank(); }
  int size() const override { return channel_->transport().size(); }

  void all_gather(std::span<const GatheredArray> arrays, const std::string& tag,
                  Stream& stream) override {
    const RankCall call =
        channel_->next_call(Operation::kAllGather, static_cast<int>(arrays.size()) - 1,
                            bytes_of_shards(arrays), tag);
    const auto own = [this](const GatheredArray& array) {
      return static_cast<std::byte*>(array.full) + rank() * array.shard_bytes;
    };
    run(call, stream, [&](CudaStream& cuda) {
      if (call.bytes == 0) return;
      for (const GatheredArray& array : arrays)
        if (own(array) != array.shard)
          cuda.copy(own(array), array.shard, array.shard_bytes);
      queue_as_one(call, arrays.size(), [&](size_t i, ncclComm_t comm) {
        return ncclAllGather(own(arrays[i]), arrays[i].full, arrays[i].shard_bytes,
                             ncclUint8, comm, cuda.handle());
      });
    });
  }

  void reduce_scatter(void* full, float* shard, int64_t shard_numel, DType type,
                      SumOrder order, const std::string& tag, Stream& stream,
                      const SummedPiece& summed) override {
    const RankCall call = channel_->next_call(
        Operation::kReduceScatter, 2 * static_cast<int>(type) + static_cast<int>(order),
        shard_numel * size_of(type), tag);
    run(call, stream, [&](CudaStream& cuda) {
      if (shard_numel == 0) return;
      if (type == DType::kFp32 && order == SumOrder::kAny)
        sum_as_is_fastest(call, static_cast<float*>(full), shard, shard_numel, cuda);
      else
        sum_as_a_tree(call, static_cast<std::byte*>(full), shard, shard_numel, type,
                      cuda);
      if (summed) tell(summed, shard_numel, cuda);
    });
  }

  // The numbers are the host's already.
  void all_reduce(std::span<double> values, SumOrder order, const std::string& tag,
                  Stream& stream) override {
    const RankCall call = channel_->next_call(
        Operation::kAllReduce, static_cast<int>(order), std::ssize(values) * 8, tag);
    agree(call, stream, [call, values](Transport& transport) {
      reduce_values(transport, call, values, ReduceOp::kSum);
    });
  }

 private:
  // A failure ends the GPU's streams, and is told to the other ranks.
  NcclCommunicator::Owner owner(Device& gpu) const {
    as_cuda_stream(gpu.compute_stream()).shared_context()->use();  // which NCCL asks for
    return {.failed =
                [channel = channel_,
                 context = as_cuda_stream(gpu.compute_stream()).shared_context()](
                    const std::exception_ptr& failure) {
                  context->fail(failure);
                  channel->close();
                },
            .reason_gone = [channel =
                                channel_] { return channel->transport().reason_gone(); }};
  }

  // What the ranks of a call tell each other in the host's memory comes before what is
  // queued on the stream next.
  void agree(const RankCall& call, Stream& stream,
             std::function<void(Transport&)> exchange) {
    worker_->enqueue(
        [channel = channel_, nccl = nccl_, call, exchange = std::move(exchange)] {
          try {
            channel->run(call, exchange);
          } catch (...) {
            nccl->end(std::current_exception());
            throw;
          }
        });
    worker_->record(agreed_);
    stream.wait(agreed_);
  }

  template <class Body>
  void run(const RankCall& call, Stream& stream, const Body& body) {
    CudaStream& cuda = as_cuda_stream(stream);
    try {
      cuda.wait(last_call_);  // it may be on another stream
      agree(call, cuda, [call](Transport& transport) { transport.barrier(call); });
      body(cuda);
      cuda.record(last_call_);
      nccl_->watch(description_of(call), last_call_);
    } catch (...) {  // the other ranks do their part of it
      nccl_->end(std::current_exception());
      throw;
    }
  }

  void queue(const RankCall& call, const std::function<ncclResult_t(ncclComm_t)>& work) {
    nccl_->call(description_of(call), work);
  }

  // As one launch, whatever their number.
  template <class Work>
  void queue_as_one(const RankCall& call, size_t count, const Work& work) {
    queue(call, [&](ncclComm_t comm) {
      if (count == 1) return work(0, comm);
      ncclResult_t result = ncclGroupStart();
      for (size_t i = 0; i < count && is_under_way(result); ++i) result = work(i, comm);
      const ncclResult_t ended = ncclGroupEnd();
      return is_under_way(result) ? ended : result;
    });
  }

  void sum_as_is_fastest(const RankCall& call, float* full, float* shard, int64_t numel,
                         CudaStream& cuda) {
    float* const own = full + rank() * numel;
    queue(call, [&](ncclComm_t comm) {
      return ncclReduceScatter(full, own, numel, ncclFloat32, ncclSum, comm,
                               cuda.handle());
    });
    if (shard != own) cuda.copy(shard, own, numel * 4);
  }

  // Every rank gets all ranks' values of its part, as many at a time as there is room
  // for: (size, piece) as they travel, then their sums (piece) in fp32.
  void sum_as_a_tree(const RankCall& call, std::byte* full, float* shard, int64_t numel,
                     DType type, CudaStream& cuda) {
    const int64_t element = size_of(type);
    const int64_t piece = exchange_bytes_ / (size() * element + 4) / 64 * 64;
    assert(piece > 0);
    auto* const sums = reinterpret_cast<float*>(exchange_ + size() * piece * element);
    for (int64_t offset = 0; offset < numel; offset += piece) {
      const int64_t count = std::min(piece, numel - offset);
      queue_as_one(call, 2 * size(), [&](size_t i, ncclComm_t comm) {
        const int peer = static_cast<int>(i / 2);
        return i % 2 == 0
                   ? ncclSend(full + (peer * numel + offset) * element, count * element,
                              ncclUint8, peer, comm, cuda.handle())
                   : ncclRecv(exchange_ + peer * piece * element, count * element,
                              ncclUint8, peer, comm, cuda.handle());
      });
      queue_tree_sum(sums, exchange_, type, size(), piece, count, cuda.handle());
      cuda.copy(shard + offset, sums, count * 4);
    }
  }

  // By a thread of the host, once they have arrived.
  void tell(const SummedPiece& summed, int64_t numel, CudaStream& cuda) {
    if (!listener_) listener_ = gpu_.make_worker("sums");
    cuda.record(arrived_);
    listener_->wait(arrived_);
    listener_->enqueue([=] { summed(0, numel); });
    listener_->record(told_);
    cuda.wait(told_);
  }

  const std::shared_ptr<Channel> channel_;  // outlives us while calls are queued
  Device& gpu_;
  std::byte* const exchange_;
  const int64_t exchange_bytes_;
  const std::shared_ptr<NcclCommunicator> nccl_;
  Event last_call_, agreed_, arrived_, told_;
  std::unique_ptr<HostStream> worker_, listener_;
};

}  // namespace
}  // namespace zero

zero::Collectives* zero_make_nccl_collectives(zero::Ranks& ranks, zero::Device& gpu,
                                              void* exchange, int64_t exchange_bytes) {
  return new zero::NcclCollectives(ranks, gpu, static_cast<std::byte*>(exchange),
                                   exchange_bytes);
}
