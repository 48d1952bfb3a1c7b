#pragma once

#include <cstdint>

namespace zero {

class ThreadPool;

// Settings of AdamW that hold for a whole piece of parameters.
struct AdamHyper {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

// Throw std::invalid_argument, naming field, value and allowed range, unless all are
// finite, lr, eps and weight_decay are at least 0, and both betas lie in [0, 1).
void check(const AdamHyper& hyper);

// One contiguous piece: the master weights, their state and this step's gradient.
// The arrays do not overlap; their alignment does not matter.
struct AdamPiece {
  const float* grad = nullptr;          // (numel) fp32; or else
  const uint16_t* grad_bf16 = nullptr;  // (numel) bf16; exactly one of the two is given
  float* master = nullptr;              // (numel) updated
  float* exp_avg = nullptr;             // (numel) updated
  float* exp_avg_sq = nullptr;          // (numel) updated
  uint16_t* copy_bf16 = nullptr;        // (numel) written: bf16 of master; may be null
  int64_t numel = 0;
};

// Do one AdamW step (Loshchilov and Hutter, arXiv:1711.05101) on a piece, in one sweep.
//
// `step` counts from 1. `grad_factor` multiplies every gradient: clipping, loss scale,
// divisor. Throws std::invalid_argument for a bad hyper, a step below 1, a negative
// numel, no gradient or two of them.
//
// The arithmetic is a specification; another implementation of it must give the same
// bits. Per step, in fp64 and then rounded once to fp32 (power = repeated squaring, see
// adam_scalars):
//     decay = 1 - lr * weight_decay          one_minus_beta = 1 - beta
//     step_size = lr / (1 - beta1^step)      sqrt_bc2 = sqrt(1 - beta2^step)
// Per element, each operation rounded to fp32, none contracted into a fused multiply-add:
//     g = grad * grad_factor
//     p = p * decay
//     m = m * beta1 + g * one_minus_beta1
//     v = v * beta2 + (g * g) * one_minus_beta2
//     d = sqrt(v) / sqrt_bc2 + eps
//     p = p - (step_size * m) / d            unless d is 0: then p stays
//     copy_bf16 = p, to nearest even
// So the bits depend neither on position, thread count nor instruction set (a NaN's
// payload may).
//
// At the edges: d is 0 only when eps and v are, as in a slot that has seen no gradient;
// its quotient, 0/0 or m/0, counts as 0. |g| above 1.8e19 makes g * g and from then on v
// infinite: the slot is decayed but no longer updated. |g| below about 1e-21 vanishes in
// v. A NaN gradient makes p, m and v of its slot NaN, and of no other; an infinite one
// makes m and v infinite and p NaN.
void adam_step(const AdamPiece& piece, const AdamHyper& hyper, int64_t step,
               float grad_factor, ThreadPool& pool);

// What the loop reads per step, already rounded; for implementations on other devices.
struct AdamScalars {
  float grad_factor, decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size, sqrt_bc2, eps;
};

// beta^step comes from repeated squaring: pow() differs between C libraries and CPUs.
AdamScalars adam_scalars(const AdamHyper& hyper, int64_t step, float grad_factor);

}  // namespace zero
