#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/plan/unit_plan.h"
#include "engine/weights/shard_store.h"
#include "offload/exact_sum.h"
#include "offload/thread_pool.h"
#include "zero/options.h"
#include "zero/ranks.h"

namespace zero {

// The size of a gradient, added up as its pieces arrive. Padding, which is zero, and
// frozen parameters, which have none, are outside it.
//
// L2 and L1 sums are exact (see offload/exact_sum.h): the same bits whatever the order of
// the pieces and the number of ranks.
class GradientNorm {
 public:
  explicit GradientNorm(NormType type) : type_(type) {}

  // A piece that begins on a 64-element boundary of its layout.
  void add(const float* values, int64_t numel);
  void merge(const GradientNorm& other);
  // What a GPU has added up: an ExactSum's limbs, in no normal form, and the largest
  // magnitude or NaN.
  void merge(std::span<const int64_t> limbs, float largest);
  GradientNorm of_none() const { return GradientNorm(type_); }

  // The norm of what all ranks have added, times `factor`; not finite when any value is
  // not. One all-reduce.
  double reduce(double factor, Ranks& ranks) const;

 private:
  void add_largest(float largest);

  NormType type_;
  ExactSum sum_;        // of L1 and L2
  double largest_ = 0;  // of the infinity norm, but for NaN:
  bool has_nan_ = false;
};

// The FQN of the first parameter (in plan order) with a gradient on any rank that is not
// finite, or not when multiplied by `factor`; "" if there is none. Collective.
std::string first_non_finite(const UnitPlan& plan, const std::vector<std::string>& fqns,
                             ShardStore& shards, float factor, Ranks& ranks);

// What gradients are multiplied with so that their norm is at most `clip`; 1 if clip is 0
// (torch's clip_grad_norm_: clip / (norm + 1e-6), at most 1).
double clip_coefficient(double norm, double clip);

}  // namespace zero
