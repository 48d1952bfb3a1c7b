#include "offload/cpu_adam.h"

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>

#include "offload/float_environment.h"
#include "offload/kernels.h"
#include "offload/thread_pool.h"

namespace zero {
namespace {

// About 1 MiB in all arrays: long enough to stream, short enough to share out.
constexpr int64_t kChunkNumel = 1 << 16;

void check_field(const char* name, double value, double below, const char* range) {
  if (value >= 0 && value < below) return;  // false for NaN
  std::ostringstream text;
  text << "AdamHyper: " << name << " is " << value << ", must be in " << range;
  throw std::invalid_argument(text.str());
}

void check(const AdamPiece& piece, int64_t step) {
  if (step < 1) {
    throw std::invalid_argument("adam_step: step is " + std::to_string(step) +
                                ", must be 1 or more");
  }
  if (piece.numel < 0) {
    throw std::invalid_argument("adam_step: numel is " + std::to_string(piece.numel));
  }
  if (piece.numel > 0 && !piece.grad == !piece.grad_bf16) {
    throw std::invalid_argument("adam_step: give grad or grad_bf16, one of the two");
  }
}

double power(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

template <typename T>
T* advance(T* array, int64_t offset) {
  return array ? array + offset : nullptr;
}

AdamPiece slice(const AdamPiece& piece, int64_t begin, int64_t end) {
  return {.grad = advance(piece.grad, begin),
          .grad_bf16 = advance(piece.grad_bf16, begin),
          .master = piece.master + begin,
          .exp_avg = piece.exp_avg + begin,
          .exp_avg_sq = piece.exp_avg_sq + begin,
          .copy_bf16 = advance(piece.copy_bf16, begin),
          .numel = end - begin};
}

}  // namespace

void check(const AdamHyper& hyper) {
  check_field("lr", hyper.lr, HUGE_VAL, "[0, inf)");
  check_field("beta1", hyper.beta1, 1, "[0, 1)");
  check_field("beta2", hyper.beta2, 1, "[0, 1)");
  check_field("eps", hyper.eps, HUGE_VAL, "[0, inf)");
  check_field("weight_decay", hyper.weight_decay, HUGE_VAL, "[0, inf)");
}

AdamScalars adam_scalars(const AdamHyper& hyper, int64_t step, float grad_factor) {
  DefaultFloatEnvironment default_rounding;
  const double bias_correction1 = 1 - power(hyper.beta1, step);
  const double bias_correction2 = 1 - power(hyper.beta2, step);
  return {.grad_factor = grad_factor,
          .decay = static_cast<float>(1 - hyper.lr * hyper.weight_decay),
          .beta1 = static_cast<float>(hyper.beta1),
          .one_minus_beta1 = static_cast<float>(1 - hyper.beta1),
          .beta2 = static_cast<float>(hyper.beta2),
          .one_minus_beta2 = static_cast<float>(1 - hyper.beta2),
          .step_size = static_cast<float>(hyper.lr / bias_correction1),
          .sqrt_bc2 = static_cast<float>(std::sqrt(bias_correction2)),
          .eps = static_cast<float>(hyper.eps)};
}

void adam_step(const AdamPiece& piece, const AdamHyper& hyper, int64_t step,
               float grad_factor, ThreadPool& pool) {
  check(hyper);
  check(piece, step);
  const AdamScalars scalars = adam_scalars(hyper, step, grad_factor);
  pool.parallel_for(piece.numel, kChunkNumel, [&](int64_t begin, int64_t end) {
    fastest_kernels().adam(slice(piece, begin, end), scalars);
  });
}

}  // namespace zero
