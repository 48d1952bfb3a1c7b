#include "offload/stored_values.h"

#include <algorithm>
#include <stdexcept>

namespace zero {

StoredValues StoredValues::in_bf16(uint16_t* values, int64_t numel) {
  return in_halves(values, nullptr, numel);
}

StoredValues StoredValues::in_halves(uint16_t* high, uint16_t* low, int64_t numel) {
  StoredValues stored;
  stored.high_ = high;
  stored.low_ = low;
  stored.numel_ = numel;
  return stored;
}

float StoredValues::operator[](size_t i) const {
  assert(i < size());
  if (is_plain()) return plain_[i];
  return low_ ? join_float(high_[i], low_[i]) : bf16_to_float(high_[i]);
}

void StoredValues::read(int64_t begin, std::span<float> to) const {
  assert(begin + std::ssize(to) <= numel_);
  if (is_plain()) {
    std::copy_n(plain_ + begin, to.size(), to.data());
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) to[i] = (*this)[begin + i];
}

void StoredValues::write(int64_t begin, std::span<const float> from) const {
  assert(begin + std::ssize(from) <= numel_);
  if (is_plain()) {
    std::copy(from.begin(), from.end(), plain_ + begin);
    return;
  }
  if (!low_) {
    convert_to_bf16(from.data(), high_ + begin, std::ssize(from));
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
    throw std::logic_error("these values are stored in 16 bits: read() and write() them");
  return {plain_, size()};
}

}  // namespace zero
