#include "engine/comm/collectives.h"
#include "engine/device/device.h"
#include "zero/errors.h"

namespace zero {
namespace {

class LoneCollectives final : public Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_gather(const void* shard, void* full, int64_t shard_bytes, const std::string&,
                  Stream& stream) override {
    if (shard != full) stream.copy(full, shard, shard_bytes);
  }

  // Types differ, and the sum has to be made somewhere: that is the caller's.
  void reduce_scatter(void*, float*, int64_t, DType, SumOrder, const std::string& tag,
                      Stream&, const SummedPiece&) override {
    throw Error(ExitCode::kEnvironment, "one rank has nothing to reduce", tag, "");
  }

  void all_reduce(std::span<double>, SumOrder, const std::string&, Stream&) override {}
};

}  // namespace

std::unique_ptr<Collectives> make_lone_collectives() {
  return std::make_unique<LoneCollectives>();
}

}  // namespace zero
