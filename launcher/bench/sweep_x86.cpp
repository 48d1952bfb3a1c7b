#include "launcher/bench/sweep_loop.h"

namespace zero::launcher {
namespace {

void baseline(const SweptArrays& arrays, int64_t begin, int64_t end, uint32_t no_bits) {
  sweep_range(arrays, begin, end, no_bits);
}

[[gnu::target("avx2")]] void avx2(const SweptArrays& arrays, int64_t begin, int64_t end,
                                  uint32_t no_bits) {
  sweep_range(arrays, begin, end, no_bits);
}

[[gnu::target("avx512f")]] void avx512(const SweptArrays& arrays, int64_t begin,
                                       int64_t end, uint32_t no_bits) {
  sweep_range(arrays, begin, end, no_bits);
}

}  // namespace

SweepRange fastest_sweep() {
  if (__builtin_cpu_supports("avx512f")) return avx512;
  return __builtin_cpu_supports("avx2") ? avx2 : baseline;
}

}  // namespace zero::launcher
