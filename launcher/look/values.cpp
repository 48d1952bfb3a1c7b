#include "launcher/look/values.h"

#include <array>
#include <cmath>
#include <cstring>

namespace zero::launcher {
namespace {

// What is worked on at once: it stays in the processor's first cache.
constexpr int64_t kBlock = 1024;
using Block = std::array<double, kBlock>;

// Sums side by side, which the compiler can keep in one register.
constexpr int64_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

template <class T>
void convert(const char* from, int64_t n, double* to) {
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    to[i] = static_cast<double>(value);
  }
}

void to_doubles(DType dtype, const char* from, int64_t n, double* to) {
  if (dtype == DType::kFp64) convert<double>(from, n, to);
  if (dtype == DType::kFp32) convert<float>(from, n, to);
  if (dtype == DType::kInt64) convert<int64_t>(from, n, to);
  if (dtype == DType::kInt32) convert<int32_t>(from, n, to);
  if (dtype == DType::kUint8 || dtype == DType::kBool) convert<uint8_t>(from, n, to);
  if (dtype != DType::kBf16 && dtype != DType::kFp16) return;
  std::array<float, kBlock> wide;
  widen(dtype, from, n, wide.data());
  std::copy_n(wide.begin(), n, to);
}

// x - x is 0, or NaN where x is not finite.
bool are_finite(const double* x, int64_t n) {
  Lanes sums{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) sums[j] += x[i + j] - x[i + j];
  for (; i < n; ++i) sums[0] += x[i] - x[i];
  return std::ranges::all_of(sums, [](double sum) { return sum == 0; });
}

void add_finite(const double* x, int64_t n, Summary& summary) {
  Lanes sums{}, squares{}, smallest, largest;
  smallest.fill(summary.min);
  largest.fill(summary.max);
  const auto take = [&](int64_t lane, double value) {
    sums[lane] += value;
    squares[lane] += value * value;
    smallest[lane] = value < smallest[lane] ? value : smallest[lane];
    largest[lane] = value > largest[lane] ? value : largest[lane];
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) take(j, x[i + j]);
  for (; i < n; ++i) take(0, x[i]);
  summary.num_finite += n;
  for (int64_t j = 0; j < kLanes; ++j) {
    summary.sum += sums[j];
    summary.sum_of_squares += squares[j];
    summary.min = std::min(summary.min, smallest[j]);
    summary.max = std::max(summary.max, largest[j]);
  }
}

void add_block(Block& x, int64_t n, Summary& summary) {
  if (!are_finite(x.data(), n)) {
    const auto end = x.begin() + n;
    const auto num_nan = std::count_if(x.begin(), end, [](double v) { return v != v; });
    const auto last =
        std::remove_if(x.begin(), end, [](double v) { return !std::isfinite(v); });
    summary.num_nan += num_nan;
    summary.num_inf += end - last - num_nan;
    n = last - x.begin();
  }
  add_finite(x.data(), n, summary);
}

double ratio(double part, double whole) { return part == 0 ? 0 : part / whole; }

}  // namespace

void Summary::add(DType dtype, const char* values, int64_t n) {
  Block block;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    to_doubles(dtype, values + at * size_of(dtype), count, block.data());
    add_block(block, count, *this);
  }
}

double Summary::norm() const { return std::sqrt(sum_of_squares); }

double Summary::mean() const { return sum / static_cast<double>(num_finite); }

double Summary::largest() const {
  return num_finite == 0 ? 0 : std::max(std::abs(min), std::abs(max));
}

void Distance::add(DType dtype_a, const char* a, DType dtype_b, const char* b,
                   int64_t n) {
  first.add(dtype_a, a, n);
  num_values += n;
  const int64_t bytes_a = size_of(dtype_a), bytes_b = size_of(dtype_b);
  const bool is_one_type = dtype_a == dtype_b;
  Block x, y;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const char *from_a = a + at * bytes_a, *from_b = b + at * bytes_b;
    // Two zeros are one number, and two NaN none.
    const auto have_same_bits = [&](int64_t i, int64_t num) {
      return std::memcmp(from_a + i * bytes_a, from_b + i * bytes_a,
                         static_cast<size_t>(num * bytes_a)) == 0;
    };
    if (is_one_type && have_same_bits(0, count)) continue;
    to_doubles(dtype_a, from_a, count, x.data());
    to_doubles(dtype_b, from_b, count, y.data());
    for (int64_t i = 0; i < count; ++i) {
      const bool is_one_number = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
      if (is_one_number && (!is_one_type || have_same_bits(i, 1))) continue;
      ++num_different;
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) {
        ++num_not_finite;
        continue;
      }
      const double difference = std::abs(x[i] - y[i]);
      largest = std::max(largest, difference);
      sum_of_squares += difference * difference;
    }
  }
}

double Distance::relative() const { return ratio(largest, first.largest()); }

double Distance::relative_norm() const {
  return ratio(std::sqrt(sum_of_squares), first.norm());
}

}  // namespace zero::launcher
