#pragma once
#include <cstdint>
#include <limits>

#include "engine/device/cuda/groups.h"
#include "engine/layers/norm_pass.h"

// Kernels in which the threads of a block work together, written for GPU and host alike.
//
// Kernel<Pass>{pass, numel} runs a pass over so many items. It has arrays(visit) and
// takes_groups() as in groups.h, and
//     kName               what it is, for messages
//     kSumsRows           whether it calls sum_in_block()
//     kGroup              elements that are taken at once, where that can be; else one is
//     num_blocks(group)   how many blocks of how many threads, a multiple of kRowLanes,
//     num_threads(group)  it needs when so many are taken
//     run<kNum>(block)    what one of them does
//
// A block is its `index`, `num_threads`, memory that its threads share (`terms`, kRowSpan
// of each warp, and `folds`, one of each warp), and
//     each_thread(work)   calls work(thread) in each; when that is over, all have
//                         finished, and see what the others wrote
//     fold_warps(term,    the same, and folds[w] is what join(a, b) makes of term(thread)
//                join)    in warp w: the halves of its threads are joined until one is
//                         left
//     fail()              breaks the GPU, as an access to memory that is not there does;
//                         the kernel may go on
// A GPU's is in launch_layers.cu; the stand-in's runs one thread after the other. So
// nothing may depend on which thread is first, and only what follows each_thread() or
// fold_warps() may read what another thread wrote. ZERO_IN_KERNEL marks such code.
#ifdef __CUDACC__
#define ZERO_IN_KERNEL __device__ __forceinline__
#define ZERO_UNROLLED _Pragma("unroll")
#else
#define ZERO_IN_KERNEL inline
#define ZERO_UNROLLED
#endif

namespace zero {

template <class Pass>
struct Kernel;

// As many as lie in 16 bytes.
template <class T>
inline constexpr int kGroupOf = 16 / static_cast<int>(sizeof(T));

inline constexpr int kMaxWarps = 8;
inline constexpr int kMaxThreads = kMaxWarps * static_cast<int>(kRowLanes);

// The least that do `items` things at once, of those that may be.
ZERO_HOST_DEVICE int threads_for(int64_t items) {
  const int64_t warps = (items + kRowLanes - 1) / kRowLanes;
  return static_cast<int>((warps < kMaxWarps ? warps : kMaxWarps) * kRowLanes);
}

// A warp for each span of a row, as far as a block has warps.
ZERO_HOST_DEVICE int threads_of_row(int64_t dim) {
  return threads_for((dim + kRowSpan - 1) / kRowSpan * kRowLanes);
}

// Leave a thread's terms in its warp's span: every 32nd group, of the `left` elements
// that the row still has. For a whole span it asks for all memory before it uses any.
template <int kNum, class Terms>
ZERO_IN_KERNEL void leave_terms(float* span, int lane, int64_t left, const Terms& terms) {
  constexpr int kStep = kRowLanes * kNum, kRounds = kRowSpan / kStep;
  if (left < kRowSpan) {
    for (int i = lane * kNum; i < left; i += kStep) write_group(span + i, terms(i));
    return;
  }
  Group<float, kNum> found[kRounds];
  ZERO_UNROLLED
  for (int round = 0; round < kRounds; ++round)
    found[round] = terms(lane * kNum + round * kStep);
  ZERO_UNROLLED
  for (int round = 0; round < kRounds; ++round)
    write_group(span + lane * kNum + round * kStep, found[round]);
}

struct Plus {
  ZERO_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};
// Of what is no number, the other.
struct Larger {
  ZERO_HOST_DEVICE float operator()(float a, float b) const { return b > a ? b : a; }
};

// Sum terms(i) over a row, in the order of sum_in_lanes(): a warp has a span, a thread
// one of its lanes. terms(i) is a Group of those of elements [i, i + kNum), and is called
// where such a group begins: its thread leaves the terms to those that add them.
template <int kNum, class Block, class Terms>
ZERO_IN_KERNEL float sum_in_block(Block& block, int64_t dim, const Terms& terms) {
  constexpr int kLanes = kRowLanes, kSpan = kRowSpan;
  const int num_warps = block.num_threads / kLanes;
  float sum = 0;
  for (int64_t begin = 0; begin < dim; begin += int64_t{num_warps} * kSpan) {
    block.each_thread([&](int thread) {
      const int64_t first = begin + thread / kLanes * kSpan;
      leave_terms<kNum>(block.terms + thread / kLanes * kSpan, thread % kLanes,
                        dim - first, [&](int i) { return terms(first + i); });
    });
    block.fold_warps(
        [&](int thread) {
          const int64_t left = dim - begin - thread / kLanes * kSpan;
          const float* const own = block.terms + thread / kLanes * kSpan;
          float lane = 0;
          for (int i = thread % kLanes; i < kSpan && i < left; i += kLanes)
            lane += own[i];
          return lane;
        },
        Plus());
    for (int warp = 0; warp < num_warps && begin + warp * kSpan < dim; ++warp)
      sum += block.folds[warp];
  }
  return sum;
}

// The largest of values(i), Groups as above, over a row, but those that are no numbers.
template <int kNum, class Block, class Values>
ZERO_IN_KERNEL float largest_in_block(Block& block, int64_t dim, const Values& values) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const Larger larger;
  block.fold_warps(
      [&](int thread) {
        float largest = kNone;
        for (int64_t i = thread * kNum; i < dim; i += block.num_threads * kNum) {
          const Group<float, kNum> found = values(i);
          for (int j = 0; j < kNum; ++j) largest = larger(largest, found.values[j]);
        }
        return largest;
      },
      larger);
  float largest = kNone;
  for (int warp = 0; warp < block.num_threads / static_cast<int>(kRowLanes); ++warp)
    largest = larger(largest, block.folds[warp]);
  return largest;
}

}  // namespace zero
