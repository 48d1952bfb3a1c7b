#pragma once
#include <torch/torch.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "zero/batch_norm.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero {

// How one batch norm reaches the other ranks of its engine.
//
// It exchanges in the engine's order of small calls, on the thread that drives the
// engine, so that ranks which call batch norms differently are told.
class BatchNormRanks : NoCopy {
 public:
  BatchNormRanks(Ranks& ranks, const std::string& fqn) : ranks_(&ranks), fqn_(fqn) {}
  // The engine is gone: calls throw.
  void detach() { ranks_ = nullptr; }

  // Of values that ranks have parts of: `own` and the result are (1 + 2 * features) of
  // type double on the host: count, means, variances (biased). The same bits on all
  // ranks. Throws Error(kUsage) if there is one value or none.
  at::Tensor statistics(const at::Tensor& own);
  // Element-wise sum over ranks of doubles on the host.
  at::Tensor sum(const at::Tensor& own);

  const std::string& fqn() const { return fqn_; }

 private:
  Ranks& ranks();

  Ranks* ranks_;  // null: detached
  const std::string fqn_;
};

// The statistics of several groups of values together, (groups, 1 + 2 * features) as
// above: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing
// sample variances", 1979. Nothing cancels where means are large.
std::vector<double> merged_statistics(std::span<const double> of_groups, size_t features);

// Is it torch's batch norm, which knows nothing of ranks?
bool is_plain_batch_norm(const torch::nn::Module& module);

// With Options::sync_batch_norm: throws Error(kUsage) for a model that would not be
// synchronised: with batch norms of torch's, all of which are named, or without any.
void require_synced_batch_norms(const torch::nn::Module& root, const Options& options);

// The batch norms of a model, synchronised among ranks as long as this lives.
class SyncedBatchNorms : NoCopy {
 public:
  SyncedBatchNorms(torch::nn::Module& root, Ranks& ranks);
  ~SyncedBatchNorms();

 private:
  std::vector<BatchNormBase*> norms_;
};

}  // namespace zero
