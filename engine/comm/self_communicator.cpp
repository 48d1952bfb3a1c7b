#include "engine/comm/self_communicator.h"

#include <cstring>

#include "engine/comm/queued_communicator.h"
#include "engine/comm/tree_sum.h"

namespace zero {

namespace {

class SelfTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_gather(const Call&, const void* shard, void* full,
                  int64_t shard_bytes) override {
    if (shard != full && shard_bytes > 0) std::memcpy(full, shard, shard_bytes);
  }
  void reduce_scatter(const Call&, const void* full, float* shard, int64_t shard_numel,
                      WireType type) override {
    tree_sum({&full, 1}, type, shard, shard_numel);
  }
  void broadcast(const Call&, void*, int64_t, int) override {}
  void barrier(const Call&) override {}
  std::unique_ptr<Transport> split(const Call&, int) override {
    return std::make_unique<SelfTransport>();
  }
  void leave(const std::string&) noexcept override {}
};

}  // namespace

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<QueuedCommunicator>(std::make_unique<SelfTransport>());
}

}  // namespace zero
