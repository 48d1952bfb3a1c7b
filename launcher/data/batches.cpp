#include "launcher/data/batches.h"

#include <algorithm>

#include "launcher/data/sampler.h"
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

int64_t Batch::num_targets() const {
  return std::ssize(targets) - std::ranges::count(targets, -1);
}

Batch empty_batch(int64_t rows, int64_t seq_len) {
  const size_t numel = rows * seq_len;
  return {rows, seq_len, std::vector<int64_t>(numel, 0), std::vector<int64_t>(numel, -1)};
}

void read_row(const data::Sampler& sampler, int64_t global_index, int64_t row,
              Batch& batch) {
  std::vector<int64_t> tokens(batch.seq_len + 1);
  sampler.sample(global_index, tokens.data());
  const int64_t offset = row * batch.seq_len;
  std::copy_n(tokens.begin(), batch.seq_len, batch.inputs.begin() + offset);
  std::copy_n(tokens.begin() + 1, batch.seq_len, batch.targets.begin() + offset);
}

Batch read_passes(const data::Sampler& sampler, const BatchPlan& plan, int64_t seq_len,
                  int64_t batch, int64_t first_pass, int64_t count) {
  Batch rows = empty_batch(count * plan.micro_batch, seq_len);
  for (int64_t row = 0; row < rows.rows; ++row) {
    const int64_t pass = first_pass + row / plan.micro_batch;
    read_row(sampler, first_sample(plan, batch, pass) + row % plan.micro_batch, row,
             rows);
  }
  return rows;
}

}  // namespace zero::launcher
