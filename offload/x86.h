#pragma once

#include <cpuid.h>

// What files that are compiled for several instruction sets of x86 need; others do not
// include it.
namespace zero {

// As [[gnu::target]] takes them.
#define ZERO_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"

// With it every such CPU has F16C, but a virtual machine may hide that.
inline bool has_avx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) &&
         (c & bit_F16C) != 0;
}

inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace zero
