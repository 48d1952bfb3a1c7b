// Numbers that tell what parameters are.
#include <atomic>

#include "engine/engine_impl.h"
#include "engine/init/shard_writer.h"

namespace zero {
namespace {

void round(std::vector<float>& values, DType type) {
  const int64_t numel = std::ssize(values);
  if (type == DType::kFp32) return;
  std::vector<uint16_t> halves(type == DType::kInt8 ? 0 : numel);
  std::vector<Int8Block> blocks(numel / Int8Block::kNumel + 1);
  const StoredValues rounded =
      type == DType::kInt8   ? StoredValues::in_int8(blocks.data(), numel)
      : type == DType::kFp16 ? StoredValues::in_fp16(halves.data(), numel)
                             : StoredValues::in_bf16(halves.data(), numel);
  rounded.write(0, values);
  rounded.read(0, values);
}

// Of this rank's slice, a few MiB at a time on each thread.
uint64_t checksum_of(const StoredValues& masters, int64_t begin, DType type,
                     ThreadPool& threads) {
  std::atomic<uint64_t> sum = 0;
  const auto numel = static_cast<int64_t>(masters.size());
  threads.parallel_for(numel, StoredValues::kFewAtOnce, [&](int64_t first, int64_t last) {
    std::vector<float> values(last - first);
    masters.read(first, values);
    round(values, type);
    sum += zero::checksum_of(begin + first, values);
  });
  return sum;
}

}  // namespace

std::vector<uint64_t> Engine::checksums(const std::vector<std::string>& fqns,
                                        DType rounded_to) {
  EngineResources& own = impl_->own;
  impl_->values.require_there("checksums()");
  own.updates->finish();
  // Sums of halves, which no number of ranks makes too large.
  std::vector<int64_t> halves;
  for (const std::string& fqn : fqns) {
    const auto [shard, layout, index] = impl_->values.home_of(impl_->values.find(fqn));
    uint64_t sum = 0;
    if (const auto piece = piece_of(layout, rank(), index))
      sum = checksum_of(shard.masters(piece->shard_begin, piece->numel),
                        piece->param_begin, rounded_to, own.threads);
    halves.push_back(static_cast<int64_t>(sum >> 32));
    halves.push_back(static_cast<int64_t>(sum & 0xffffffffu));
  }
  own.control->all_reduce(halves, ReduceOp::kSum, "checksums");
  std::vector<uint64_t> sums;
  for (size_t i = 0; i < halves.size(); i += 2)
    sums.push_back((static_cast<uint64_t>(halves[i]) << 32) +
                   static_cast<uint64_t>(halves[i + 1]));
  return sums;
}

}  // namespace zero
