#include "engine/weights/shard_store.h"

#include <algorithm>
#include <cassert>
#include <mutex>
#include <utility>

#include "engine/device/device_arena.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/unit_plan.h"
#include "offload/convert.h"
#include "offload/thread_pool.h"
#include "offload/update.h"

namespace zero {
namespace {

int64_t arena_bytes(const MemoryPlan& memory, bool on_gpu) {
  int64_t bytes = 0;
  for (const ShardArray& array : memory.shard_arrays)
    bytes += array.on_gpu == on_gpu && !array.is_shared ? array.bytes() : 0;
  return bytes;
}

// Copies wait for all that the device computes.
class GpuMemoryOf final : public FarMemory {
 public:
  explicit GpuMemoryOf(Stream& stream) : stream_(stream) {}

  void read(void* here, const void* there, int64_t bytes) override {
    copy(here, there, bytes);
  }
  void write(void* there, const void* here, int64_t bytes) override {
    copy(there, here, bytes);
  }

 private:
  void copy(void* to, const void* from, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    stream_.copy(to, from, bytes);
    stream_.synchronize();
  }

  std::mutex mutex_;
  Stream& stream_;  // guarded by mutex_
};

// Where the array keeps the values that have its role.
void place(std::byte* bytes, const ShardArray& array, PartShard& shard) {
  auto* floats = reinterpret_cast<float*>(bytes);
  auto* halves = reinterpret_cast<uint16_t*>(bytes);
  const bool is_plain = array.dtype == DType::kFp32;
  const ShardRole role = array.role;
  UpdatedValues& updated = array.is_draft ? shard.draft : shard;
  if (role == ShardRole::kMaster) updated.master = floats;
  if (role == ShardRole::kMasterLow) updated.master_low = halves;
  if (role == ShardRole::kOldHigh) shard.old_high = halves;
  if (role == ShardRole::kState && is_plain) updated.state[array.state] = floats;
  if (role == ShardRole::kState && !is_plain) updated.state_bf16[array.state] = halves;
  if (role == ShardRole::kGradient && is_plain) shard.grad = floats;
  if (role == ShardRole::kGradient && !is_plain) shard.grad_bf16 = halves;
  if (role == ShardRole::kCopy) shard.copy = halves, shard.copy_type = array.dtype;
  if (role == ShardRole::kWeights) shard.weights_on_gpu = bytes;
}

}  // namespace

StoredValues PartShard::masters(int64_t begin, int64_t numel) const {
  if (master || !copy) return StoredValues(master + begin, numel).in(gpu);
  if (copy_type == DType::kInt8) {
    auto* const blocks = reinterpret_cast<Int8Block*>(copy);
    assert(begin % Int8Block::kNumel == 0);
    return StoredValues::in_int8(blocks + begin / Int8Block::kNumel, numel).in(gpu);
  }
  uint16_t* const high = copy + begin;
  if (master_low) return StoredValues::in_halves(high, master_low + begin, numel).in(gpu);
  return (copy_type == DType::kFp16 ? StoredValues::in_fp16(high, numel)
                                    : StoredValues::in_bf16(high, numel))
      .in(gpu);
}

StoredValues PartShard::states(int index, int64_t begin, int64_t numel) const {
  if (state[index]) return StoredValues(state[index] + begin, numel).in(gpu);
  if (!state_bf16[index]) return {};
  return StoredValues::in_bf16(state_bf16[index] + begin, numel).in(gpu);
}

void PartShard::take_draft() { std::swap(static_cast<UpdatedValues&>(*this), draft); }

void PartShard::renew_copy(DType type, int64_t numel, ThreadPool& threads) const {
  const auto convert = type == DType::kFp16 ? convert_to_fp16 : convert_to_bf16;
  threads.parallel_for(numel, kUpdateChunkNumel, [&](int64_t begin, int64_t end) {
    if (old_high) return void(std::copy(old_high + begin, old_high + end, copy + begin));
    convert(master + begin, copy + begin, end - begin);
  });
}

void PartShard::hold_gradient(DType type) {
  void* const memory = gradient_memory();
  grad = type == DType::kFp32 ? static_cast<float*>(memory) : nullptr;
  grad_bf16 = type == DType::kFp32 ? nullptr : static_cast<uint16_t*>(memory);
}

StoredValues PartShard::gradients(int64_t begin, int64_t numel) const {
  if (grad) return StoredValues(grad + begin, numel).in(gpu);
  if (!grad_bf16) return {};
  return StoredValues::in_bf16(grad_bf16 + begin, numel).in(gpu);
}

ShardStore::ShardStore(const UnitPlan& plan, const MemoryPlan& memory, Device& device,
                       int rank, std::unique_ptr<SharedMemory> shared)
    : arena_(std::make_unique<HostArena>("shards", arena_bytes(memory, false))),
      shared_(std::move(shared)),
      shared_bytes_(memory.shared_bytes()),
      shards_(plan.parts.size()) {
  if (const int64_t bytes = arena_bytes(memory, true); bytes > 0) {
    gpu_arena_ = std::make_unique<DeviceArena>(device, "shards", bytes);
    device.compute_stream().set_bytes(gpu_arena_->data(), 0, bytes);
    gpu_ = std::make_unique<GpuMemoryOf>(device.compute_stream());
  }
  int64_t shared_end = 0;  // of what is dealt out
  const auto allocate_shared = [&](const ShardArray& array, size_t i, int64_t bytes) {
    const int64_t begin = shared_end;
    shared_end += plan.mesh.group * array.bytes(i);
    shards_[array.parts[i]].weights_of_all = shared_->view() + begin;
    return shared_->data() + begin + plan.mesh.member_of(rank) * bytes;
  };
  for (const ShardArray& array : memory.shard_arrays) {
    for (size_t i = 0; i < array.parts.size(); ++i) {
      const int part = array.parts[i];
      const PlannedPart& planned = plan.parts[part];
      const int64_t bytes = bytes_of(array.dtype, array.numels[i]);
      std::byte* const memory_of_part =
          array.on_gpu      ? gpu_arena_->allocate(bytes)
          : array.is_shared ? allocate_shared(array, i, bytes)
                            : arena_->allocate(planned.tag + " " + array.owner, bytes);
      const bool is_for_group = array.numels[i] != planned.layout.shard_numel;
      const int64_t begin = is_for_group ? planned.layout.begin_in_group(rank) : 0;
      place(memory_of_part + bytes_of(array.dtype, begin), array, shards_[part]);
      if (array.on_gpu && array.role != ShardRole::kWeights)
        shards_[part].gpu = gpu_.get();
    }
  }
}

ShardStore::~ShardStore() = default;

void ShardStore::refresh_shared() {
  if (shared_) shared_->refresh_view();
}

}  // namespace zero
