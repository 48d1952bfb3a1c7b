#include "offload/stored_values.h"

#include <algorithm>
#include <stdexcept>

#include "base/dtype.h"
#include "offload/convert.h"

namespace zero {

StoredValues StoredValues::in_bf16(uint16_t* values, int64_t numel) {
  return in_halves(values, nullptr, numel);
}

StoredValues StoredValues::in_fp16(uint16_t* values, int64_t numel) {
  StoredValues stored = in_halves(values, nullptr, numel);
  stored.is_fp16_ = true;
  return stored;
}

StoredValues StoredValues::in_int8(Int8Block* blocks, int64_t numel) {
  StoredValues stored;
  stored.blocks_ = blocks;
  stored.numel_ = numel;
  return stored;
}

StoredValues StoredValues::in_halves(uint16_t* high, uint16_t* low, int64_t numel) {
  StoredValues stored;
  stored.high_ = high;
  stored.low_ = low;
  stored.numel_ = numel;
  return stored;
}

StoredValues StoredValues::in(FarMemory* memory) const {
  StoredValues stored = *this;
  stored.far_ = memory;
  return stored;
}

float StoredValues::operator[](size_t i) const {
  assert(i < size());
  if (far_) {
    float value = 0;
    read(static_cast<int64_t>(i), {&value, 1});
    return value;
  }
  if (is_plain()) return plain_[i];
  if (blocks_) {
    const Int8Block& block = blocks_[i / Int8Block::kNumel];
    return decode(block.values[i % Int8Block::kNumel], block.factor);
  }
  if (is_fp16_) return fp16_to_float(high_[i]);
  return low_ ? join_float(high_[i], low_[i]) : bf16_to_float(high_[i]);
}

void StoredValues::read(int64_t begin, std::span<float> to) const {
  assert(begin + std::ssize(to) <= numel_);
  if (far_) return read_far(begin, to);
  if (is_plain()) {
    std::copy_n(plain_ + begin, to.size(), to.data());
    return;
  }
  if (!blocks_) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = (*this)[begin + i];
    return;
  }
  const int64_t end = begin + std::ssize(to);
  for (int64_t i = begin; i < end;) {
    const Int8Block& block = blocks_[i / Int8Block::kNumel];
    int64_t in_block = i % Int8Block::kNumel;
    for (; in_block < Int8Block::kNumel && i < end; ++in_block, ++i)
      to[i - begin] = decode(block.values[in_block], block.factor);
  }
}

// As many at once as pass through a few MiB here: `near` has those from begin + first on,
// of blocks behind the `before` others that their first block begins with.
template <class Move>
void StoredValues::move_far(int64_t begin, int64_t numel, const Move& move) const {
  const int64_t before = blocks_ ? begin % Int8Block::kNumel : 0;
  const int64_t most = before + std::min(numel, kFewAtOnce);
  std::vector<uint16_t> high(high_ ? most : 0), low(low_ ? most : 0);
  std::vector<Int8Block> blocks(
      blocks_ ? (most + Int8Block::kNumel - 1) / Int8Block::kNumel : 0);
  StoredValues near = in(nullptr);
  if (high_) near.high_ = high.data();
  if (low_) near.low_ = low.data();
  if (blocks_) near.blocks_ = blocks.data();
  for (int64_t first = 0; first < numel; first += kFewAtOnce) {
    near.numel_ = before + std::min(kFewAtOnce, numel - first);
    move(near, before, first);
  }
}

// copy(here, there, bytes) for each array, of what `near` has from `begin` on.
template <class Copy>
void StoredValues::each_array(const StoredValues& near, int64_t begin,
                              const Copy& copy) const {
  if (high_) copy(near.high_, high_ + begin, near.numel_ * 2);
  if (low_) copy(near.low_, low_ + begin, near.numel_ * 2);
  if (blocks_)
    copy(near.blocks_, blocks_ + begin / Int8Block::kNumel,
         bytes_of(DType::kInt8, near.numel_));
}

void StoredValues::read_far(int64_t begin, std::span<float> to) const {
  const auto copy = [&](void* here, const void* there, int64_t bytes) {
    far_->read(here, there, bytes);
  };
  if (!high_ && !blocks_)
    return copy(to.data(), plain_ + begin, static_cast<int64_t>(to.size_bytes()));
  move_far(begin, std::ssize(to),
           [&](const StoredValues& near, int64_t before, int64_t first) {
             each_array(near, begin + first, copy);
             near.read(before, to.subspan(first, near.numel_ - before));
           });
}

void StoredValues::write_far(int64_t begin, std::span<const float> from) const {
  const auto copy = [&](const void* here, void* there, int64_t bytes) {
    far_->write(there, here, bytes);
  };
  if (!high_ && !blocks_)
    return copy(from.data(), plain_ + begin, static_cast<int64_t>(from.size_bytes()));
  move_far(begin, std::ssize(from),
           [&](const StoredValues& near, int64_t, int64_t first) {
             near.write(0, from.subspan(first, near.numel_));
             each_array(near, begin + first, copy);
           });
}

void StoredValues::require_whole_blocks(int64_t begin, int64_t numel) const {
  constexpr int64_t kNumel = Int8Block::kNumel;
  if (begin % kNumel == 0 && (numel % kNumel == 0 || begin + numel == numel_)) return;
  throw std::logic_error("values in int8 are written a block at a time");
}

void StoredValues::write(int64_t begin, std::span<const float> from) const {
  assert(begin + std::ssize(from) <= numel_);
  if (blocks_) require_whole_blocks(begin, std::ssize(from));
  if (far_) return write_far(begin, from);
  if (blocks_) {
    for (int64_t i = 0; i < std::ssize(from); i += Int8Block::kNumel)
      encode(from.data() + i, std::min(std::ssize(from) - i, Int8Block::kNumel),
             blocks_[(begin + i) / Int8Block::kNumel]);
    return;
  }
  if (is_plain()) {
    std::copy(from.begin(), from.end(), plain_ + begin);
    return;
  }
  if (!low_) {
    const auto convert = is_fp16_ ? convert_to_fp16 : convert_to_bf16;
    convert(from.data(), high_ + begin, std::ssize(from));
    return;
  }
  for (size_t i = 0; i < from.size(); ++i) {
    const SplitFloat halves = split_float(from[i]);
    high_[begin + i] = halves.high;
    low_[begin + i] = halves.low;
  }
}

std::vector<float> StoredValues::read_all() const {
  std::vector<float> values(size());
  read(0, values);
  return values;
}

std::span<float> StoredValues::span() const {
  if (!is_plain())
    throw std::logic_error(
        "these values are in 16 bits or fewer, or not in the host's memory: read() and "
        "write() them");
  return {plain_, size()};
}

}  // namespace zero
