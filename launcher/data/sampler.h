#pragma once
#include <cstdint>
#include <span>

#include "launcher/data/samples.h"

namespace zero::data {

class TokenSource;

// The number at place i of a shuffled [0, n), without a table: an exact bijection chosen
// by (seed, epoch), in constant memory. 0 <= i < n.
//
// A Feistel network permutes the smallest range of 4^k numbers that covers n; results
// outside [0, n) go through it again until one falls inside (cycle walking), fewer than 4
// times on average. The order depends on the three numbers alone and is part of what a
// resumed run relies on: a change here changes every shuffled run. Source: Black and
// Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002.
int64_t shuffled_place(int64_t i, int64_t n, uint64_t seed, uint64_t epoch);

// The number, in [0, n), of the sample with an index that counts on through all epochs.
int64_t sample_place(int64_t global_index, int64_t n, bool shuffle, uint64_t seed);

// What a run trains on, and what is held out for evaluations: the end of the data, that
// fraction of all samples, at least 1 and at most 1,000; none of fewer than 100.
struct Split {
  SampleRange trained, held_out;
};
Split split_samples(int64_t num_samples, double fraction);

// The samples of a source, each of seq_len tokens and a target. Throws DataError when it
// holds less than one.
int64_t count_samples(const TokenSource& source, int64_t seq_len);

// Address training samples by a global index that counts on through all epochs.
//
// Sample i of an epoch is tokens [i*L, i*L+L], L = seq_len: inputs are the first L,
// targets the last L, so neighbours share one token. Step s with global batch B uses
// indices s*B .. s*B+B-1, whatever the number of ranks; every epoch uses every sample
// once. There is no state: a resumed run continues with the next index.
class Sampler : public Samples {
 public:
  // `source` must outlive the sampler. Throws DataError when it holds less than one
  // sample; it holds those that are asked for.
  Sampler(const TokenSource& source, int64_t seq_len, const SampleOrder& order);

  int64_t num_samples() const override { return num_samples_; }
  int64_t epoch(int64_t global_index) const { return global_index / num_samples_; }

  // The sample's number in token order among these, in [0, num_samples()).
  int64_t sample_number(int64_t global_index) const;

  // Write the sample's tokens to (L + 1). Throws DataError when a file changed. Safe from
  // several threads.
  void sample(int64_t global_index, int64_t* tokens) const;

  Batch empty_batch(int64_t rows) const override;
  void read(std::span<const int64_t> indices, Batch& batch) const override;

 private:
  const TokenSource& source_;
  int64_t seq_len_;
  SampleOrder order_;
  int64_t num_samples_;
};

}  // namespace zero::data
