#include "engine/plan/traffic_plan.h"

#include "engine/plan/unit_plan.h"
#include "zero/options.h"

namespace zero {

std::vector<int64_t> gathers_of_step(const UnitPlan& plan, const MemoryPlan& memory,
                                     const Options& options) {
  const int64_t num_passes = options.micro_batches_per_rank;
  const SlotPlan& ring = memory.gather_ring;
  std::vector<int64_t> num_users(ring.classes.size()), num_before(ring.classes.size());
  for (const int c : ring.class_of) {
    if (c >= 0) ++num_users[c];
  }
  std::vector<int64_t> gathers(plan.units.size());
  gathers.front() = memory.root_weights.bytes() > 0 ? 1 : 0;
  for (size_t u = 1; u < gathers.size(); ++u) {
    const int c = ring.class_of[u];
    if (c < 0) continue;  // it has no weights, or they are there
    const int64_t place = num_before[c]++, num_slots = ring.classes[c].num_slots;
    const bool is_found_in_backward = place >= num_users[c] - num_slots;
    const bool is_found_in_forward = place < num_slots;
    gathers[u] = 1 + (is_found_in_backward ? 0 : num_passes) +
                 (is_found_in_forward ? 0 : num_passes - 1);
  }
  return gathers;
}

namespace {

// Of a gradient that leaves the GPU on its way to the update, per element: as autograd
// made it where nobody else adds to it, as a step keeps it where it leaves once.
int64_t bytes_out(const PlannedPart& part, const Options& options, bool is_alone,
                  bool is_whole) {
  const bool is_plain = part.unit == 0 || options.accumulate == Accumulate::kModel;
  const bool is_bf16 = (is_whole && options.grad_dtype == DType::kBf16) ||
                       (is_alone && (options.reduce_dtype == DType::kBf16 ||
                                     (is_plain && part.dtype == DType::kBf16)));
  return is_bf16 ? 2 : 4;
}

}  // namespace

Traffic make_traffic_plan(const UnitPlan& plan, const MemoryPlan& memory,
                          const Options& options, UnitMemory where, int ranks_of_host) {
  const Mesh& mesh = plan.mesh;
  const bool is_alone = mesh.group == 1;
  const std::vector<int64_t> gathers = gathers_of_step(plan, memory, options);
  Traffic step;
  MeshBytes gathered, reduced;
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    const PlannedPart& part = plan.parts[p];
    const int64_t full = bytes_of(part.gathered_type(), part.layout.numel);
    const int64_t shard = full / mesh.size;
    const int64_t of_group = full / mesh.group;
    const UnitHome& home = memory.homes[part.unit];
    const bool keeps_weights_alone = home.weights_on_gpu && !home.state_on_gpu;
    if (!memory.is_shared[p]) gathered.in_group += gathers[part.unit] * (full - of_group);
    // Other ranks' shards come over NCCL, or through the host's memory.
    if (!is_of_host(where) && !home.weights_on_gpu)
      step.to_device +=
          gathers[part.unit] * (where == UnitMemory::kGpuByHost ? full : of_group);
    if (part.is_frozen) continue;
    gathered.between_groups += of_group - shard;
    if (keeps_weights_alone) step.to_device += shard;  // behind its update
    const int64_t wire = part.layout.numel * size_of(options.reduce_dtype);
    const int64_t num_passes = options.micro_batches_per_rank;
    reduced.in_group += num_passes * (wire - wire / mesh.group);
    reduced.between_groups += wire / mesh.group - wire / mesh.size;
    if (is_of_host(where) || home.state_on_gpu) continue;
    const bool is_by_host = where == UnitMemory::kGpuByHost && !is_alone;
    const bool is_whole = num_passes == 1 || home.sums_on_gpu;
    // A group's sum, or what all groups' sums make of it.
    const bool is_slice = !memory.has_groups || home.sums_on_gpu;
    step.from_device +=
        is_by_host ? num_passes * wire
                   : (is_whole ? 1 : num_passes) *
                         (is_slice ? part.layout.shard_numel : part.layout.group_numel) *
                         bytes_out(part, options, is_alone && !home.sums_on_gpu,
                                   is_whole && is_slice);
  }
  if (memory.has_kernels) step.from_device += kGpuNormBytes;
  step.gathered = gathered.total();
  step.reduced = reduced.total();
  step.across = bytes_across(gathered + reduced, mesh, far_ranks(mesh, ranks_of_host));
  return step;
}

}  // namespace zero
