#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "engine/step/gradient_norm.h"
#include "offload/thread_pool.h"

namespace zero {

// sum = left + right, of arrays of one length; a null one counts as zeros. The sum may be
// one of the two.
struct Addition {
  const float* left = nullptr;
  const float* right = nullptr;
  const uint16_t* right_bf16 = nullptr;  // instead of right
  float* sum = nullptr;                  // or else
  uint16_t* sum_bf16 = nullptr;          // rounded to nearest even
  bool rounds = false;                   // sum holds what sum_bf16 would, as fp32
  // Gets the sum, as it was stored, while it is at hand; or null. Arrays then begin on a
  // 64-element boundary of their layout.
  GradientNorm* norm = nullptr;

  // The right side is `values`, of a type of kFp32 or kBf16.
  void point_to(const void* values, DType type);
};

// The same of what comes from element `begin` on, a multiple of 64.
Addition from(Addition addition, int64_t begin);

// Do it to elements [begin, end), each operation in fp32: the same bits on any number of
// threads. With a norm, `begin` is a multiple of 64.
void add_up(const Addition& addition, int64_t begin, int64_t end, ThreadPool& threads);

}  // namespace zero
