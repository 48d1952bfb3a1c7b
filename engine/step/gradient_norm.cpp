#include "engine/step/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "engine/device/device.h"
#include "offload/exact_sum.h"

namespace zero {
namespace {

double largest_gradient(const UnitPlan& plan, ShardStore& shards, Communicator& comm,
                        Stream& stream, ThreadPool& threads) {
  // The maximum, and whether there is a NaN: max() would lose it.
  std::array<double, 2> largest{0, 0};
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    if (plan.parts[p].is_frozen) continue;
    const double value =
        max_abs(shards[p].grad, plan.parts[p].layout.shard_numel, threads);
    if (std::isnan(value)) largest[1] = 1;
    if (value > largest[0]) largest[0] = value;
  }
  comm.all_reduce(std::span<double>(largest), ReduceOp::kMax, "gradient norm", stream);
  stream.synchronize();
  return largest[1] > 0 ? std::numeric_limits<double>::quiet_NaN() : largest[0];
}

}  // namespace

double gradient_norm(const UnitPlan& plan, ShardStore& shards, NormType type,
                     double factor, Communicator& comm, Stream& stream,
                     ThreadPool& threads) {
  if (type == NormType::kInf)
    return largest_gradient(plan, shards, comm, stream, threads) * factor;
  ExactSum sum;
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    if (plan.parts[p].is_frozen) continue;
    const float* grad = shards[p].grad;
    const int64_t numel = plan.parts[p].layout.shard_numel;
    type == NormType::kL2 ? add_squares(sum, grad, numel, threads)
                          : add_abs(sum, grad, numel, threads);
  }
  comm.all_reduce(sum.limbs(), ReduceOp::kSum, "gradient norm", stream);
  stream.synchronize();
  return (type == NormType::kL2 ? std::sqrt(sum.value()) : sum.value()) * factor;
}

std::string first_non_finite(const UnitPlan& plan, const std::vector<std::string>& fqns,
                             ShardStore& shards, Communicator& comm, Stream& stream) {
  std::array<int64_t, 1> first{std::numeric_limits<int64_t>::max()};
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    if (plan.parts[p].is_frozen) continue;
    for (const Piece& piece : pieces_of(plan.parts[p].layout, comm.rank())) {
      const float* grad = shards[p].grad + piece.shard_begin;
      const bool is_finite =
          std::all_of(grad, grad + piece.numel, [](float g) { return std::isfinite(g); });
      const int64_t param = plan.parts[p].params[piece.param];
      if (!is_finite) first[0] = std::min(first[0], param);
    }
  }
  comm.all_reduce(std::span<int64_t>(first), ReduceOp::kMin, "first non-finite gradient",
                  stream);
  stream.synchronize();
  return first[0] < static_cast<int64_t>(fqns.size()) ? fqns[first[0]] : "";
}

double clip_coefficient(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace zero
