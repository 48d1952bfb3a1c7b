#pragma once

#include <cstdint>
#include <vector>

#include "offload/update.h"

namespace zero {

class ThreadPool;

// What an AdamW step is told, with torch's defaults.
struct AdamHyper {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;

  OptimizerOptions options() const;
};

// One step of ours.
void adam_step(const UpdatePiece& piece, const AdamHyper& hyper, int64_t step,
               float grad_factor, ThreadPool& pool);

// A piece that owns its arrays, all of one length; moments start at zero.
struct AdamState {
  explicit AdamState(std::vector<float> weights);

  std::vector<float> master, exp_avg, exp_avg_sq;
  std::vector<uint16_t> copy;

  UpdatePiece piece(const std::vector<float>& grad);
};

// One AdamW step as adamw.h specifies it, by another road: one element after the
// other, each operation in fp64 and then rounded to fp32, which for + - * / and sqrt
// gives what fp32 gives.
void adam_step_reference(AdamState& state, const std::vector<float>& grad,
                         const AdamHyper& hyper, int64_t step, float grad_factor);

// bfloat16 by search: the nearer of the two neighbours; the even one when none is nearer.
uint16_t float_to_bf16_reference(float value);

// Half precision likewise.
uint16_t float_to_fp16_reference(float value);

// AdamW as in the paper, in fp64 throughout: what fp32 should come near to.
struct DoubleAdam {
  explicit DoubleAdam(const std::vector<float>& weights)
      : master(weights.begin(), weights.end()),
        exp_avg(weights.size()),
        exp_avg_sq(weights.size()) {}

  void step(const std::vector<float>& grad, const AdamHyper& hyper, int64_t step);

  std::vector<double> master, exp_avg, exp_avg_sq;
};

}  // namespace zero
