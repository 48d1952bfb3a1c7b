#include <cstring>
#include <span>

#include "engine/comm/collectives.h"
#include "engine/comm/ranks.h"
#include "engine/device/host_device.h"
#include "launcher/bench/benches.h"
#include "launcher/process/binding.h"
#include "launcher/process/world.h"

namespace zero::launcher {
namespace {

constexpr int64_t kAlignedBytes = 256;

// What the ranks pass around: `bytes` in all, of which one shard is this rank's.
class Traffic {
 public:
  Traffic(Ranks& ranks, int64_t bytes)
      : ranks_(ranks),
        collectives_(ranks.make_collectives()),
        stream_(make_inline_stream("bench")),
        shard_bytes_(bytes / ranks.size() / kAlignedBytes * kAlignedBytes),
        full_(num_bytes()),
        copy_(num_bytes()),
        shard_(2 * shard_bytes_) {}  // sums of bf16 values are fp32

  int64_t num_bytes() const { return shard_bytes_ * ranks_.size(); }

  Contestant all_gather() {
    return slowest([this] {
      collectives_->all_gather(shard_.data(), full_.data(), shard_bytes_, "bench",
                               *stream_);
    });
  }
  Contestant reduce_scatter(DType type) {
    return slowest([this, type] {
      collectives_->reduce_scatter(full_.data(), reinterpret_cast<float*>(shard_.data()),
                                   shard_bytes_ / size_of(type), type, SumOrder::kAny,
                                   "bench", *stream_);
    });
  }
  Contestant copy() {
    return slowest([this] { std::memcpy(copy_.data(), full_.data(), full_.size()); });
  }

 private:
  // All ranks begin together.
  Contestant slowest(std::function<void()> work) {
    return [this, work = std::move(work)] {
      ranks_.barrier("bench");
      double seconds = seconds_of(work);
      ranks_.all_reduce(std::span(&seconds, 1), ReduceOp::kMax, "bench");
      return seconds;
    };
  }

  Ranks& ranks_;
  std::unique_ptr<Collectives> collectives_;
  std::unique_ptr<Stream> stream_;
  const int64_t shard_bytes_;
  std::vector<std::byte> full_, copy_, shard_;
};

std::vector<Row> compare(const BenchOptions& options, const World& world) {
  take_cores(world.local_rank(), world.local_size(), options.settings.bind);
  const std::unique_ptr<Ranks> ranks = world.make_ranks();
  Traffic traffic(*ranks, options.size);
  const std::vector<Seconds> seconds = alternate(
      {traffic.copy(), traffic.all_gather(), traffic.reduce_scatter(DType::kFp32),
       traffic.reduce_scatter(DType::kBf16)},
      options.rounds);
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& type,
                       const Seconds& measured) {
    rows.push_back(with_result({{"name", name},
                                {"type", type},
                                {"ranks", ranks->size()},
                                {"bytes", traffic.num_bytes()}},
                               measured, traffic.num_bytes(), "memcpy", seconds[0]));
  };
  add("all_gather", "any", seconds[1]);
  add("reduce_scatter", "fp32", seconds[2]);
  add("reduce_scatter", "bf16", seconds[3]);
  return rows;
}

}  // namespace

BenchOfRanks bench_comm(const BenchOptions& options) {
  return [options](const World& world) { return compare(options, world); };
}

}  // namespace zero::launcher
