#pragma once
#include <cstdint>
#include <limits>

#include "launcher/data/samples.h"

namespace zero::launcher {

using data::Batch;

// How the samples of a global batch are dealt out: it is cut into micro-batches, and
// micro-batch p * ranks + r is pass p of rank r, or, where ranks form groups, as
// Mesh::micro_batch() says. So which samples train together depends on neither the number
// of ranks nor the order of time.
struct BatchPlan {
  int64_t global_batch = 1;  // samples; a multiple of micro_batch * ranks
  int64_t micro_batch = 1;
  int ranks = 1;
  int rank = 0;
  int64_t begin = 0;  // global index of the sample that batch 0 begins with
  int64_t end = std::numeric_limits<int64_t>::max();  // behind the last sample
  int group = 0;  // ranks that gather weights from each other; 0: all
};

// A batch of one pass for each rank.
BatchPlan one_pass(int64_t micro_batch, int ranks, int rank);

int64_t num_passes(const BatchPlan& plan);

// The global index of the first sample of this rank's pass, for the batch with that
// number (0, 1, ...).
int64_t first_sample(const BatchPlan& plan, int64_t batch, int64_t pass);

// How many batches samples [begin, end) make; the last one may be short.
int64_t num_batches(int64_t begin, int64_t end, int64_t global_batch);

// So many passes of this rank, one below the other. What would be behind the last sample
// is empty.
Batch read_passes(const data::Samples& samples, const BatchPlan& plan, int64_t batch,
                  int64_t first_pass, int64_t count);

// How many of `num_samples` are in micro-batch `index`, of that many rows.
int64_t samples_in(int64_t index, int64_t rows, int64_t num_samples);

// That micro-batch: what lies behind the last sample is filled with targets that count
// for nothing.
Batch read_micro_batch(const data::Samples& samples, int64_t rows, int64_t index,
                       int64_t num_samples);

}  // namespace zero::launcher
