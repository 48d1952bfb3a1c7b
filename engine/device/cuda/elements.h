#pragma once
#include <bit>
#include <cstdint>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/host_device.h"
#include "engine/device/cuda/groups.h"
#include "offload/exact_sum.h"
#include "offload/leaf_loop.h"
#include "offload/update_loop.h"

// What each kernel does to its elements, compiled for GPU and host alike: a GPU made of
// threads runs the same.
//
// A kernel is its arrays, how many elements they have, and
//     kName                   what it is, for messages
//     takes_groups()          whether kGroup elements may be taken at once, where all
//                             arrays begin at multiples of 16 bytes
//     arrays(visit)           calls visit(pointer, numel) for each array; null: none
//     run<kNum>(begin)        what is done to elements [begin, begin + kNum)
namespace zero {

inline constexpr int kGroup = 4;  // 16 bytes of fp32

// An array that is read: of fp32, or else of bf16.
struct FromArray {
  const float* fp32 = nullptr;
  const uint16_t* bf16 = nullptr;

  template <int kNum>
  ZERO_HOST_DEVICE Group<float, kNum> read(int64_t begin) const {
    if (fp32) return read_group<kNum>(fp32 + begin);
    const auto stored = read_group<kNum>(bf16 + begin);
    Group<float, kNum> group;
    for (int j = 0; j < kNum; ++j) group.values[j] = load(stored.values[j]);
    return group;
  }
  template <class Visit>
  void arrays(const Visit& visit, int64_t numel) {
    visit(fp32, numel), visit(bf16, numel);
  }
};

// One that is written: of fp32, or else of bf16, or else of fp16.
struct ToArray {
  float* fp32 = nullptr;
  uint16_t *bf16 = nullptr, *fp16 = nullptr;

  template <int kNum>
  ZERO_HOST_DEVICE void write(int64_t begin, const Group<float, kNum>& group) const {
    if (fp32) return write_group(fp32 + begin, group);
    Group<uint16_t, kNum> stored;
    for (int j = 0; j < kNum; ++j)
      stored.values[j] =
          bf16 ? float_to_bf16(group.values[j]) : float_to_fp16(group.values[j]);
    write_group((bf16 ? bf16 : fp16) + begin, stored);
  }
  template <class Visit>
  void arrays(const Visit& visit, int64_t numel) {
    visit(fp32, numel), visit(bf16, numel), visit(fp16, numel);
  }
};

// Kernels that do the same to each element.
struct Elementwise {
  static constexpr bool kIsReduced = false;  // to one value
  int64_t numel = 0;

  ZERO_HOST_DEVICE bool takes_groups() const { return true; }
};

// --- the sum of pieces

// Of `num_pieces` numbers below 2^kLevels: a binary counter of partial sums, in which
// level l holds the sum of 2^l neighbours.
template <int kNum, int kLevels, class T>
ZERO_HOST_DEVICE Group<float, kNum> sum_of_pieces(const T* pieces, int64_t stride,
                                                  int num_pieces) {
  Group<float, kNum> partial[kLevels] = {}, sum = {};
  for (int i = 0; i < num_pieces; ++i) {
    const Group<T, kNum> piece = read_group<kNum>(pieces + i * stride);
    for (int j = 0; j < kNum; ++j) sum.values[j] = load(piece.values[j]);
    bool is_carried = true;
    for (int level = 0; level < kLevels; ++level) {
      const bool is_taken = (i >> level & 1) != 0;
      for (int j = 0; j < kNum; ++j) {
        float& left = partial[level].values[j];
        if (is_carried && is_taken) sum.values[j] = left + sum.values[j];
        if (is_carried && !is_taken) left = sum.values[j];
      }
      is_carried = is_carried && is_taken;
    }
  }
  bool is_first = true;
  for (int level = 0; level < kLevels; ++level) {
    if ((num_pieces >> level & 1) == 0) continue;
    for (int j = 0; j < kNum; ++j) {
      const float left = partial[level].values[j];
      sum.values[j] = is_first ? left : left + sum.values[j];
    }
    is_first = false;
  }
  return sum;
}

struct TreeSum : Elementwise {
  static constexpr const char* kName = "a sum of pieces";
  float* to = nullptr;
  FromArray pieces;
  int num_pieces = 0;
  int64_t stride = 0;

  static constexpr int kFewLevels = 5, kAllLevels = 31;
  ZERO_HOST_DEVICE bool are_few() const { return num_pieces >> kFewLevels == 0; }
  ZERO_HOST_DEVICE bool takes_groups() const { return are_few() && stride % 8 == 0; }

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) const {
    if (pieces.fp32)
      sum<kNum>(pieces.fp32 + begin, begin);
    else
      sum<kNum>(pieces.bf16 + begin, begin);
  }
  template <int kNum, class T>
  ZERO_HOST_DEVICE void sum(const T* from, int64_t begin) const {
    if (kNum > 1 || are_few())
      write_group(to + begin, sum_of_pieces<kNum, kFewLevels>(from, stride, num_pieces));
    else
      write_group(to + begin, sum_of_pieces<1, kAllLevels>(from, stride, num_pieces));
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(to, numel), pieces.arrays(visit, (num_pieces - 1) * stride + numel);
  }
};

// --- one element after the other

struct Cast : Elementwise {
  static constexpr const char* kName = "a cast";
  ToArray to;
  FromArray from;

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) const {
    to.write(begin, from.read<kNum>(begin));
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    to.arrays(visit, numel), from.arrays(visit, numel);
  }
};

// Of one of two kinds, into one of three.
struct Decode : Elementwise {
  static constexpr const char* kName = "a decoding";
  const Int8Block* blocks = nullptr;
  const uint16_t* halves = nullptr;  // instead of blocks: bf16, or else
  bool is_fp16 = false;
  ToArray to;

  template <int kNum>
  ZERO_HOST_DEVICE Group<float, kNum> read(int64_t begin) const {
    Group<float, kNum> group;
    if (blocks) {
      const Int8Block& block = blocks[begin / Int8Block::kNumel];
      const auto values = read_group<kNum>(block.values + begin % Int8Block::kNumel);
      for (int j = 0; j < kNum; ++j)
        group.values[j] = decode(values.values[j], block.factor);
      return group;
    }
    const auto stored = read_group<kNum>(halves + begin);
    for (int j = 0; j < kNum; ++j)
      group.values[j] =
          is_fp16 ? fp16_to_float(stored.values[j]) : bf16_to_float(stored.values[j]);
    return group;
  }
  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) const {
    to.write(begin, read<kNum>(begin));
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(blocks, numel / Int8Block::kNumel), visit(halves, numel);
    to.arrays(visit, numel);
  }
};

// Of two arrays, or what one of them holds, or zeros.
struct Sum : Elementwise {
  static constexpr const char* kName = "a sum";
  ToArray to;
  bool rounds = false;  // to bf16, though `to` may be fp32
  const float* left = nullptr;
  FromArray right;

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) const {
    const bool has_right = right.fp32 || right.bf16;
    Group<float, kNum> sum = {}, summand = {};
    if (left) sum = read_group<kNum>(left + begin);
    if (has_right) summand = right.read<kNum>(begin);
    for (int j = 0; j < kNum; ++j) {
      float& value = sum.values[j];
      if (left && has_right) value = value + summand.values[j];
      if (!left && has_right) value = summand.values[j];
      if (rounds) value = bf16_to_float(float_to_bf16(value));
    }
    to.write(begin, sum);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    to.arrays(visit, numel), visit(left, numel), right.arrays(visit, numel);
  }
};

// --- AdamW

// How a thread goes over its elements of a piece: reads them, does to each what the
// host's loop does, and writes them back.
template <int kNum>
struct UpdatedGroup {
  int64_t begin;

  template <MasterKind kMaster, class Rule, class Grad, class State>
  ZERO_HOST_DEVICE void run(const UpdatePiece& piece, const Grad* grads,
                            State* const* states, const Rule& rule) const {
    constexpr bool kIsSplit = kMaster == MasterKind::kSplit;
    const auto grad = read_group<kNum>(grads + begin);
    auto first = read_group<kNum>(states[0] + begin);
    auto second = read_group<kNum>(states[1] + begin);
    Group<float, kNum> master = {};
    Group<uint16_t, kNum> low = {}, copy = {};
    if constexpr (kIsSplit) {
      low = read_group<kNum>(piece.master_low + begin);
      copy = read_group<kNum>(piece.copy_bf16 + begin);
    } else {
      master = read_group<kNum>(piece.master + begin);
    }
    const auto old_master = master;
    const auto old_low = low, old_high = copy;
    for (int j = 0; j < kNum; ++j)
      update_element<kMaster>(rule, grad.values, master.values, low.values, copy.values,
                              first.values, second.values, j);
    if (piece.movement && !piece.movement->is_known()) {
      bool had_gradient = false, moved = false;
      for (int j = 0; j < kNum; ++j) {
        had_gradient = had_gradient || load(grad.values[j]) != 0;
        moved = moved || std::bit_cast<uint32_t>(old_master.values[j]) !=
                             std::bit_cast<uint32_t>(master.values[j]);
        if constexpr (kIsSplit)
          moved = moved || old_low.values[j] != low.values[j] ||
                  old_high.values[j] != copy.values[j];
      }
      if (had_gradient) piece.movement->had_gradient = 1;  // whoever else sets it
      if (moved) piece.movement->moved = 1;
    }
    write_group(states[0] + begin, first);
    write_group(states[1] + begin, second);
    if constexpr (kIsSplit)
      write_group(piece.master_low + begin, low);
    else
      write_group(piece.master + begin, master);
    if constexpr (kMaster != MasterKind::kPlain)
      write_group(piece.copy_bf16 + begin, copy);
    else if (piece.copy_fp16)
      ToArray{.fp16 = piece.copy_fp16}.write(begin, master);
  }
};

struct AdamW : Elementwise {
  static constexpr const char* kName = "AdamW";
  UpdatePiece piece;
  AdamWRule rule;

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) const {
    update_values(piece, rule, UpdatedGroup<kNum>{begin});
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(piece.grad, numel), visit(piece.grad_bf16, numel);
    visit(piece.master, numel), visit(piece.master_low, numel);
    for (float*& state : piece.state) visit(state, numel);
    for (uint16_t*& state : piece.state_bf16) visit(state, numel);
    visit(piece.copy_bf16, numel), visit(piece.copy_fp16, numel);
    visit(piece.movement, 1);
  }
};

// --- norms

// Each thread adds its leaves, taken one by one, to limbs: `limb_stride` apart.
struct LeafSums {
  static constexpr const char* kName = "a norm's sum";
  FromArray values;
  int64_t numel = 0;
  NormType type = NormType::kL2;  // or kL1
  int64_t* limbs = nullptr;
  int limb_stride = 1;

  ZERO_HOST_DEVICE bool takes_groups() const { return true; }
  ZERO_HOST_DEVICE int64_t num_leaves() const {
    return (numel + kLeafNumel - 1) / kLeafNumel;
  }

  // `kNum` elements are read at once. A last leaf that is shorter is filled up with
  // zeros.
  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t leaf) const {
    const int64_t begin = leaf * kLeafNumel;
    float leaf_values[kLeafNumel];
    if (begin + kLeafNumel <= numel) {
      for (int i = 0; i < kLeafNumel; i += kNum) {
        const Group<float, kNum> group = values.read<kNum>(begin + i);
        for (int j = 0; j < kNum; ++j) leaf_values[i + j] = group.values[j];
      }
    } else {
      for (int i = 0; i < kLeafNumel; ++i)
        leaf_values[i] = begin + i < numel ? values.read<1>(begin + i).values[0] : 0.0f;
    }
    const double sum = type == NormType::kL2 ? leaf_sum<square>(leaf_values)
                                             : leaf_sum<magnitude>(leaf_values);
    add_exactly(sum, limbs, limb_stride);
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    values.arrays(visit, numel), visit(limbs, ExactSum::kNumLimbs);
  }
};

// Each thread keeps the largest magnitude that it has found, as bits: without signs,
// floats order as their bits do, infinity next to last and NaN last.
struct MaxAbs : Elementwise {
  static constexpr const char* kName = "a largest magnitude";
  static constexpr bool kIsReduced = true;
  FromArray values;
  float* largest = nullptr;
  uint32_t found = 0;

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) {
    const Group<float, kNum> group = values.read<kNum>(begin);
    for (int j = 0; j < kNum; ++j) {
      const uint32_t bits = std::bit_cast<uint32_t>(group.values[j]) & 0x7fffffffu;
      found = bits > found ? bits : found;
    }
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    values.arrays(visit, numel), visit(largest, 1);
  }
};

// --- hashes

// Each thread adds what it finds, mixed with its place, in any order.
struct HashSum : Elementwise {
  static constexpr const char* kName = "a hash";
  static constexpr bool kIsReduced = true;
  const uint16_t* values = nullptr;
  uint64_t* sum = nullptr;
  uint64_t found = 0;

  template <int kNum>
  ZERO_HOST_DEVICE void run(int64_t begin) {
    const auto group = read_group<kNum>(values + begin);
    uint64_t word = 0;
    for (int j = 0; j < kNum; ++j) word = word << 16 | group.values[j];
    found += mixed(word + mixed(static_cast<uint64_t>(begin) + 1));
  }
  template <class Visit>
  void arrays(const Visit& visit) {
    visit(values, numel), visit(sum, 1);
  }
};

}  // namespace zero
