#include "engine/step/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "offload/bf16.h"

namespace zero {

void GradientNorm::add(const float* values, int64_t numel) {
  if (type_ == NormType::kL2) return add_squares(sum_, values, numel);
  if (type_ == NormType::kL1) return add_abs(sum_, values, numel);
  const double largest = max_abs(values, numel);
  if (std::isnan(largest)) has_nan_ = true;
  if (largest > largest_) largest_ = largest;
}

void GradientNorm::merge(const GradientNorm& other) {
  sum_.merge(other.sum_);
  largest_ = std::max(largest_, other.largest_);
  has_nan_ = has_nan_ || other.has_nan_;
}

double GradientNorm::reduce(double factor, Ranks& ranks) {
  if (type_ == NormType::kInf) {
    // The maximum, and whether there is a NaN: max() would lose it.
    std::array<double, 2> all{largest_, has_nan_ ? 1.0 : 0.0};
    ranks.all_reduce(all, ReduceOp::kMax, "gradient norm");
    return all[1] > 0 ? std::numeric_limits<double>::quiet_NaN() : all[0] * factor;
  }
  ranks.all_reduce(sum_.limbs(), ReduceOp::kSum, "gradient norm");
  return (type_ == NormType::kL2 ? std::sqrt(sum_.value()) : sum_.value()) * factor;
}

namespace {

bool is_finite(float value) { return std::isfinite(value); }
bool is_finite(uint16_t bf16) { return std::isfinite(bf16_to_float(bf16)); }

template <class T>
bool all_finite(const T* shard, const Piece& piece) {
  return std::all_of(shard + piece.shard_begin, shard + piece.shard_begin + piece.numel,
                     [](T value) { return is_finite(value); });
}

}  // namespace

std::string first_non_finite(const UnitPlan& plan, const std::vector<std::string>& fqns,
                             ShardStore& shards, Ranks& ranks) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    if (plan.parts[p].is_frozen) continue;
    for (const Piece& piece : pieces_of(plan.parts[p].layout, ranks.rank())) {
      const bool finite = shards[p].grad ? all_finite(shards[p].grad, piece)
                                         : all_finite(shards[p].grad_bf16, piece);
      const int64_t param = plan.parts[p].params[piece.param];
      if (!finite) first = std::min(first, param);
    }
  }
  ranks.all_reduce(std::span(&first, 1), ReduceOp::kMin, "first non-finite gradient");
  return first < static_cast<int64_t>(fqns.size()) ? fqns[first] : "";
}

double clip_coefficient(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace zero
