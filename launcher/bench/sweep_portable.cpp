#include "launcher/bench/sweep_loop.h"

namespace zero::launcher {
namespace {

void portable(const SweptArrays& arrays, int64_t begin, int64_t end, uint32_t no_bits) {
  sweep_range(arrays, begin, end, no_bits);
}

}  // namespace

SweepRange fastest_sweep() { return portable; }

}  // namespace zero::launcher
