#include "offload/adam_kernels.h"
#include "offload/adam_loop.h"

namespace zero {
namespace {

void run_baseline(const AdamPiece& piece, const AdamScalars& s) { adam_sweep(piece, s); }

[[gnu::target("avx2")]] void run_avx2(const AdamPiece& piece, const AdamScalars& s) {
  adam_sweep(piece, s);
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void run_avx512(
    const AdamPiece& piece, const AdamScalars& s) {
  adam_sweep(piece, s);
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

std::vector<AdamKernel> adam_kernels() {
  std::vector<AdamKernel> kernels{{"baseline", run_baseline}};
  if (__builtin_cpu_supports("avx2")) kernels.push_back({"avx2", run_avx2});
  if (has_avx512()) kernels.push_back({"avx512", run_avx512});
  return kernels;
}

}  // namespace zero
