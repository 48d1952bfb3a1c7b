// In the place of engine/device/cuda/launch_layers.cu: blocks run one after the other,
// and of a block each thread's share, last ones first: nothing may depend on who is
// first.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/device/cuda/layer_kernels.h"
#include "tests/standin/kernel_arrays.h"

namespace zero {
namespace {

// Of a block; not a number until somebody writes it.
struct SharedMemory {
  static constexpr int kAtOnce = 16;
  std::vector<Group<float, kAtOnce>> terms;
  std::vector<float> folds;

  SharedMemory(bool sums_rows, int num_warps)
      : terms(sums_rows ? num_warps * kRowSpan / kAtOnce : 0), folds(num_warps, NAN) {
    for (auto& group : terms) std::fill_n(group.values, kAtOnce, NAN);
  }
};

struct BlockOfThreads {
  int64_t index;
  int num_threads;
  float *terms, *folds;

  template <class Work>
  void each_thread(const Work& work) {
    for (int thread = num_threads - 1; thread >= 0; --thread) work(thread);
  }
  template <class Term, class Join>
  void fold_warps(const Term& term, const Join& join) {
    std::vector<float> found(num_threads);
    each_thread([&](int thread) { found[thread] = term(thread); });
    for (int half = kRowLanes / 2; half > 0; half /= 2) {
      for (int thread = 0; thread < num_threads; ++thread)
        if (thread % kRowLanes < half)
          found[thread] = join(found[thread], found[thread + half]);
    }
    for (int thread = 0; thread < num_threads; thread += kRowLanes)
      folds[thread / kRowLanes] = found[thread];
  }
  void fail() { standin::reach(nullptr, 1); }
};

template <int kNum, class Kernel>
void run_blocks(const Kernel& kernel) {
  const int num_threads = kernel.num_threads(kNum);
  for (int64_t block = kernel.num_blocks(kNum) - 1; block >= 0; --block) {
    SharedMemory shared(Kernel::kSumsRows, num_threads / kRowLanes);
    float* const terms = shared.terms.empty() ? nullptr : shared.terms[0].values;
    BlockOfThreads threads{block, num_threads, terms, shared.folds.data()};
    kernel.template run<kNum>(threads);
  }
}

struct LauncherOnThreads {
  template <class Kernel>
  static void launch(const Kernel& kernel, void* stream) {
    standin::launch_kernel(kernel, Kernel::kName, static_cast<cudaStream_t>(stream),
                           [](const auto& reached, bool takes_groups) {
                             if (takes_groups)
                               run_blocks<Kernel::kGroup>(reached);
                             else
                               run_blocks<1>(reached);
                           });
  }
};

}  // namespace
}  // namespace zero

const zero::GpuPasses* zero_gpu_passes() {
  static const zero::GpuPasses passes = zero::gpu_passes_of<zero::LauncherOnThreads>();
  return &passes;
}
