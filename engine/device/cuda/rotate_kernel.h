#pragma once
#include "engine/device/cuda/layer_block.h"
#include "engine/layers/rotate_pass.h"

namespace zero {

// A block has a position of a sample, with all its heads; a thread a group of pairs of a
// head, or a group of what is not turned.
template <class T, Pairs kPairs>
struct Kernel<RotatePass<T, kPairs>> {
  static constexpr const char* kName = "a rotation";
  static constexpr bool kSumsRows = false;
  static constexpr int kGroup = kGroupOf<T>;
  RotatePass<T, kPairs> pass;
  int64_t num_positions;  // B * T

  bool takes_groups() const {
    return pass.half % kGroup == 0 && pass.dim % kGroup == 0 && allow_groups(pass.from) &&
           allow_groups(pass.to);
  }
  int64_t num_blocks(int) const { return num_positions; }
  int num_threads(int group) const {
    return threads_for(pass.num_heads * groups_of_head(group));
  }

  template <int kNum, class Block>
  ZERO_IN_KERNEL void run(Block& block) const {
    const int64_t sample = block.index / pass.length,
                  position = block.index % pass.length;
    const T* const in = pass.x + sample * pass.from.batch + position * pass.from.position;
    T* const out = pass.y + sample * pass.to.batch + position * pass.to.position;
    const int of_head = groups_of_head(kNum);
    const int num_groups = static_cast<int>(pass.num_heads) * of_head;
    block.each_thread([&](int thread) {
      for (int i = thread; i < num_groups; i += block.num_threads) {
        const int head = i / of_head, begin = i % of_head * kNum;
        const T* const from = in + head * pass.from.head;
        T* const to = out + head * pass.to.head;
        if (begin < pass.half)
          turn<kNum>(from, block.index % pass.num_angles * pass.half, begin, to);
        else
          write_group(to + pass.half + begin, read_group<kNum>(from + pass.half + begin));
      }
    });
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(pass.x, numel_of(pass.from)), visit(pass.y, numel_of(pass.to));
    visit(pass.cos, pass.num_angles * pass.half),
        visit(pass.sin, pass.num_angles * pass.half);
  }

 private:
  static bool allow_groups(const HeadStrides& of) {
    return of.batch % kGroup == 0 && of.head % kGroup == 0 && of.position % kGroup == 0;
  }
  // A pair's two values are one group's work, so that `half` values have none.
  ZERO_HOST_DEVICE int groups_of_head(int group) const {
    return static_cast<int>(pass.dim - pass.half) / group;
  }
  // From the first to the last element.
  int64_t numel_of(const HeadStrides& of) const {
    return (num_positions / pass.length - 1) * of.batch + (pass.num_heads - 1) * of.head +
           (pass.length - 1) * of.position + pass.dim;
  }

  // Pairs [begin, begin + kNum) of a head.
  template <int kNum>
  ZERO_IN_KERNEL void turn(const T* in, int64_t angles, int begin, T* out) const {
    constexpr bool kIsHalves = kPairs == Pairs::kHalves;
    const int64_t first = kIsHalves ? begin : 2 * begin;
    const int64_t second = first + (kIsHalves ? pass.half : kNum);
    const auto cos = read_group<kNum>(pass.cos + angles + begin);
    const auto sin = read_group<kNum>(pass.sin + angles + begin);
    const Group<T, kNum> given[2] = {read_group<kNum>(in + first),
                                     read_group<kNum>(in + second)};
    Group<T, kNum> turned[2];
    for (int j = 0; j < kNum; ++j) {
      const int a = kIsHalves ? j : 2 * j, b = kIsHalves ? j + kNum : 2 * j + 1;
      const float s = wide(sin.values[j]);
      rotate_pair(given[a / kNum].values[a % kNum], given[b / kNum].values[b % kNum],
                  cos.values[j], s * pass.direction, s * pass.opposite,
                  turned[a / kNum].values[a % kNum], turned[b / kNum].values[b % kNum]);
    }
    write_group(out + first, turned[0]);
    write_group(out + second, turned[1]);
  }
};

}  // namespace zero
