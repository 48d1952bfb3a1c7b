#include "engine/unit/batch_norm_ranks.h"

#include "base/text.h"
#include "engine/unit/exchange_tape.h"
#include "zero/errors.h"

namespace zero {
namespace {

std::span<double> numbers_of(at::Tensor& tensor) {
  return {tensor.data_ptr<double>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

std::vector<double> merged_statistics(std::span<const double> of_groups,
                                      size_t features) {
  const size_t size = 1 + 2 * features;
  std::vector<double> all(size, 0.0);
  for (size_t g = 0; g < of_groups.size(); g += size) all[0] += of_groups[g];
  for (size_t c = 0; c < features; ++c) {
    double &mean = all[1 + c], &var = all[1 + features + c];
    for (size_t g = 0; g < of_groups.size(); g += size)
      mean += of_groups[g] / all[0] * of_groups[g + 1 + c];
    for (size_t g = 0; g < of_groups.size(); g += size) {
      const double away = of_groups[g + 1 + c] - mean;
      var += of_groups[g] / all[0] * (of_groups[g + 1 + features + c] + away * away);
    }
  }
  return all;
}

at::Tensor BatchNormRanks::statistics(const at::Tensor& own) {
  Ranks& here = ranks();
  at::Tensor mine = own.contiguous();
  at::Tensor all = at::empty({here.size(), own.numel()}, own.options());
  here.all_gather(numbers_of(mine), numbers_of(all), "batch norm " + fqn_);
  const std::vector<double> merged =
      merged_statistics(numbers_of(all), static_cast<size_t>(own.numel()) / 2);
  if (merged[0] <= 1)
    reject("a batch norm in training, and all ranks together have " +
               std::to_string(static_cast<int64_t>(merged[0])) + " value per channel",
           fqn_, "2 or more: a larger batch, or eval()");
  return torch::tensor(merged, at::kDouble);
}

at::Tensor BatchNormRanks::sum(const at::Tensor& own) {
  at::Tensor sums = own.contiguous();
  ranks().all_reduce(numbers_of(sums), ReduceOp::kSum, "batch norm backward " + fqn_);
  return sums;
}

Ranks& BatchNormRanks::ranks() {
  if (ranks_) return *ranks_;
  reject("the engine of this batch norm is gone", fqn_,
         "keep the zero::Engine as long as the model");
}

bool is_plain_batch_norm(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module) ||
         dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module) ||
         dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module);
}

void require_synced_batch_norms(const torch::nn::Module& root, const Options& options) {
  if (!options.sync_batch_norm) return;
  std::string plain;
  bool is_any = false;
  root.apply([&](const std::string& fqn, const torch::nn::Module& module) {
    is_any = is_any || dynamic_cast<const BatchNormBase*>(&module);
    if (!is_plain_batch_norm(module)) return;
    plain += text_of(plain.empty() ? "" : ", ", fqn.empty() ? "the model itself" : fqn);
  });
  if (!plain.empty())
    reject(
        "with sync_batch_norm, batch norms of torch::nn, which normalise each rank's "
        "batch alone",
        plain,
        "use zero::BatchNorm2d (1d, 3d) there; zero::convert_sync_batchnorm(*model) "
        "replaces entries of nn::Sequential");
  if (!is_any)
    reject("sync_batch_norm for a model without a batch norm", "zero::Engine",
           "leave it out (Options::sync_batch_norm), or use zero::BatchNorm2d");
}

SyncedBatchNorms::SyncedBatchNorms(torch::nn::Module& root, Ranks& ranks) {
  root.apply([&](const std::string& fqn, torch::nn::Module& module) {
    auto* norm = dynamic_cast<BatchNormBase*>(&module);
    if (!norm || norm->ranks) return;  // it may have several names
    norm->ranks = std::make_shared<BatchNormRanks>(ranks, fqn);
    norms_.push_back(norm);
  });
}

SyncedBatchNorms::~SyncedBatchNorms() {
  for (BatchNormBase* norm : norms_) {
    norm->ranks->detach();
    norm->ranks.reset();
  }
}

}  // namespace zero
