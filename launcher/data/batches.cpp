#include "launcher/data/batches.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "zero/mesh.h"

namespace zero::launcher {

BatchPlan one_pass(int64_t micro_batch, int ranks, int rank) {
  return {micro_batch * ranks, micro_batch, ranks, rank};
}

int64_t num_passes(const BatchPlan& plan) {
  return plan.global_batch / (plan.micro_batch * plan.ranks);
}

int64_t first_sample(const BatchPlan& plan, int64_t batch, int64_t pass) {
  const Mesh mesh(plan.ranks, plan.group);
  return plan.begin + batch * plan.global_batch +
         mesh.micro_batch(plan.rank, pass, num_passes(plan)) * plan.micro_batch;
}

int64_t num_batches(int64_t begin, int64_t end, int64_t global_batch) {
  return (end - begin + global_batch - 1) / global_batch;
}

Batch read_passes(const data::Samples& samples, const BatchPlan& plan, int64_t batch,
                  int64_t first_pass, int64_t count) {
  std::vector<int64_t> indices;
  for (int64_t pass = first_pass; pass < first_pass + count; ++pass) {
    const int64_t first = first_sample(plan, batch, pass);
    for (int64_t i = 0; i < plan.micro_batch && first + i < plan.end; ++i)
      indices.push_back(first + i);
  }
  Batch rows = samples.empty_batch(count * plan.micro_batch);
  samples.read(indices, rows);
  return rows;
}

int64_t samples_in(int64_t index, int64_t rows, int64_t num_samples) {
  return std::clamp<int64_t>(num_samples - index * rows, 0, rows);
}

Batch read_micro_batch(const data::Samples& samples, int64_t rows, int64_t index,
                       int64_t num_samples) {
  Batch batch = samples.empty_batch(rows);
  std::vector<int64_t> indices(samples_in(index, rows, num_samples));
  std::iota(indices.begin(), indices.end(), index * rows);
  samples.read(indices, batch);
  return batch;
}

}  // namespace zero::launcher
