#include "engine/step/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace zero {
namespace {

bool all_finite(const StoredValues& values, float factor) {
  constexpr int64_t kFew = 1 << 16;
  const auto numel = static_cast<int64_t>(values.size());
  std::vector<float> some(std::min(numel, kFew));
  for (int64_t begin = 0; begin < numel; begin += kFew) {
    some.resize(std::min(kFew, numel - begin));
    values.read(begin, some);
    if (!std::ranges::all_of(some,
                             [=](float value) { return std::isfinite(value * factor); }))
      return false;
  }
  return true;
}

}  // namespace

void GradientNorm::add(const float* values, int64_t numel) {
  if (type_ == NormType::kL2) return add_squares(sum_, values, numel);
  if (type_ == NormType::kL1) return add_abs(sum_, values, numel);
  add_largest(max_abs(values, numel));
}

void GradientNorm::add_largest(float largest) {
  if (std::isnan(largest)) has_nan_ = true;
  if (largest > largest_) largest_ = largest;
}

void GradientNorm::merge(const GradientNorm& other) {
  sum_.merge(other.sum_);
  largest_ = std::max(largest_, other.largest_);
  has_nan_ = has_nan_ || other.has_nan_;
}

void GradientNorm::merge(std::span<const int64_t> limbs, float largest) {
  const std::span<int64_t> own = sum_.limbs();
  for (size_t i = 0; i < own.size(); ++i) own[i] += limbs[i];
  sum_.limbs();  // in normal form again
  add_largest(largest);
}

double GradientNorm::reduce(double factor, Ranks& ranks) const {
  if (type_ == NormType::kInf) {
    // The maximum, and whether there is a NaN: max() would lose it.
    std::array<double, 2> all{largest_, has_nan_ ? 1.0 : 0.0};
    ranks.all_reduce(all, ReduceOp::kMax, "gradient norm");
    return all[1] > 0 ? std::numeric_limits<double>::quiet_NaN() : all[0] * factor;
  }
  ExactSum all = sum_;
  ranks.all_reduce(all.limbs(), ReduceOp::kSum, "gradient norm");
  return (type_ == NormType::kL2 ? std::sqrt(all.value()) : all.value()) * factor;
}

std::string first_non_finite(const UnitPlan& plan, const std::vector<std::string>& fqns,
                             ShardStore& shards, float factor, Ranks& ranks) {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    if (plan.parts[p].is_frozen) continue;
    for (const ParamPiece& piece : pieces_of(plan.parts[p].layout, ranks.rank())) {
      const bool finite =
          all_finite(shards[p].gradients(piece.shard_begin, piece.numel), factor);
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
