#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "engine/comm/shared_memory.h"
#include "offload/host_arena.h"
#include "offload/stored_values.h"
#include "offload/update.h"

namespace zero {

class Device;
class DeviceArena;
class ThreadPool;
struct MemoryPlan;
struct UnitPlan;

// This rank's slice of one PlannedPart, in the host's memory or a GPU's. Lengths are the
// layout's shard_numel; all start as zero. What the plan has no array for is null: a
// frozen part has a master alone, and there are neither states nor gradients for
// inference.
struct PartShard : UpdatedValues {
  UpdatedValues draft;           // where an update leaves them that is not in place
  uint16_t* old_high = nullptr;  // where it leaves the copy of before, if that is a half
  // This step's gradient, summed over ranks and micro-batches, in one of two types: see
  // hold_gradient().
  float* grad = nullptr;
  uint16_t* grad_bf16 = nullptr;
  // Master in the part's 16-bit type; null for a part that computes in fp32. Without a
  // master beside it, it is all that there is, and may be of another type: Int8Blocks of
  // kInt8.
  uint16_t* copy = nullptr;
  DType copy_type = DType::kBf16;
  // Where all of the above is a GPU's memory.
  FarMemory* gpu = nullptr;
  // What a GPU has of them where they are the host's: the copy, or else the masters.
  void* weights_on_gpu = nullptr;
  // Those of all ranks of the group, where these have one copy of them: for reading.
  std::byte* weights_of_all = nullptr;

  // In compute precision: what lies beside the masters, or instead what a GPU has of it.
  // It is a part of what the rank has for its group.
  void* own_weights() const { return copy ? static_cast<void*>(copy) : master; }
  void* weights() const { return weights_on_gpu ? weights_on_gpu : own_weights(); }

  // From now on masters and states are what an update left there.
  void take_draft();
  // Make the copy what it was before a draft, `numel` of it, on these threads: of the
  // masters, or of what the draft left of it. All are the host's.
  void renew_copy(DType type, int64_t numel, ThreadPool& threads) const;

  // From now on the gradient's memory holds this type, kFp32 or kBf16; memory that was
  // planned for bf16 holds nothing else.
  void hold_gradient(DType type);
  void* gradient_memory() const { return grad ? static_cast<void*>(grad) : grad_bf16; }

  // Elements [begin, begin + numel).
  StoredValues masters(int64_t begin, int64_t numel) const;
  StoredValues states(int index, int64_t begin, int64_t numel) const;
  StoredValues gradients(int64_t begin, int64_t numel) const;
};

// Owns the shards of all parts, in one arena of exactly the planned size, and another one
// in the device's memory; and its place in what the ranks of its group share.
class ShardStore {
 public:
  // `shared`: the planned bytes of all ranks of the group, if there are any.
  ShardStore(const UnitPlan& plan, const MemoryPlan& memory, Device& device, int rank,
             std::unique_ptr<SharedMemory> shared = nullptr);
  ~ShardStore();  // of an arena that is not known here

  PartShard& operator[](size_t part) { return shards_[part]; }
  // In the host's memory.
  int64_t bytes() const { return arena_->capacity_bytes() + shared_bytes_; }
  // All of them that are not shared, one behind the other.
  std::byte* memory() { return arena_->data(); }
  // What somebody wrote to weights_of_all is gone.
  void refresh_shared();

 private:
  std::unique_ptr<HostArena> arena_;
  std::unique_ptr<SharedMemory> shared_;
  int64_t shared_bytes_;
  std::unique_ptr<DeviceArena> gpu_arena_;  // null where nothing lies there
  std::unique_ptr<FarMemory> gpu_;
  std::vector<PartShard> shards_;
};

}  // namespace zero
