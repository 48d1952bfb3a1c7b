#include <cstring>
#include <functional>
#include <memory>

#include "engine/comm/collectives.h"
#include "engine/device/host_device.h"
#include "launcher/bench/bench_ranks.h"
#include "launcher/bench/benches.h"
#include "launcher/process/process_setup.h"
#include "launcher/process/world.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

constexpr int64_t kAlignedBytes = 256;

}  // namespace

std::vector<Row> bench_comm(const BenchOptions& options, const World& world) {
  take_cores(world, options.settings.bind);
  const std::unique_ptr<Ranks> ranks = world.make_ranks();
  const std::unique_ptr<Collectives> collectives = ranks->make_collectives();
  const std::unique_ptr<Stream> stream = make_inline_stream("bench");
  const int64_t shard_bytes =
      options.size / ranks->size() / kAlignedBytes * kAlignedBytes;
  const int64_t num_bytes = shard_bytes * ranks->size();
  std::vector<std::byte> full(num_bytes), copy(num_bytes);
  std::vector<std::byte> shard(2 * shard_bytes);  // sums of bf16 values are fp32

  const auto slowest = [&](std::function<void()> work) {
    return slowest_of(*ranks, [work = std::move(work)] { return seconds_of(work); });
  };
  const auto reduce_scatter = [&](DType type) {
    return slowest([&, type] {
      collectives->reduce_scatter(full.data(), reinterpret_cast<float*>(shard.data()),
                                  shard_bytes / size_of(type), type, SumOrder::kAny,
                                  "bench", *stream);
    });
  };
  const std::vector<Seconds> seconds = alternate(
      {slowest([&] { std::memcpy(copy.data(), full.data(), full.size()); }), slowest([&] {
         collectives->all_gather(shard.data(), full.data(), shard_bytes, "bench",
                                 *stream);
       }),
       reduce_scatter(DType::kFp32), reduce_scatter(DType::kBf16)},
      options.rounds);
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& type,
                       const Seconds& measured) {
    rows.push_back(with_result(
        {{"name", name}, {"type", type}, {"ranks", ranks->size()}, {"bytes", num_bytes}},
        measured, num_bytes, "memcpy", seconds[0]));
  };
  add("all_gather", "any", seconds[1]);
  add("reduce_scatter", "fp32", seconds[2]);
  add("reduce_scatter", "bf16", seconds[3]);
  return rows;
}

}  // namespace zero::launcher
