// Our update and its limit behind a C interface, for scripts/bench/adam_peers.py to call
// on torch's arrays.
#include "offload/sweep.h"
#include "offload/thread_pool.h"
#include "offload/update.h"

namespace {

zero::ThreadPool& pool(int num_threads) {
  static zero::ThreadPool threads(num_threads);
  return threads;
}

}  // namespace

// Gradient and copy in bf16, the rest fp32, (numel) each.
extern "C" void zero_update(const uint16_t* grad, float* master, float* exp_avg,
                            float* exp_avg_sq, uint16_t* copy, int64_t numel,
                            int64_t step, float grad_factor, int num_threads) {
  const zero::Update one{{.grad_bf16 = grad,
                          .master = master,
                          .state = {exp_avg, exp_avg_sq},
                          .copy_bf16 = copy,
                          .numel = numel},
                         zero::make_rule({}, 1e-4, step, grad_factor)};
  zero::update({&one, 1}, pool(num_threads));
}

// 28 bytes a parameter: a gradient in fp32, and no copy.
extern "C" void zero_sweep(const float* grad, float* master, float* exp_avg,
                           float* exp_avg_sq, int64_t numel, int num_threads) {
  zero::sweep(
      {.grad = grad, .master = master, .state = {exp_avg, exp_avg_sq}, .numel = numel},
      pool(num_threads));
}
