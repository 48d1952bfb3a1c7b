#include "zero/init_spec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

#include "offload/random.h"

namespace zero {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();
constexpr double kMostWindows = 1000;  // in a deviation

// Of what is not constant.
Draw draw_of(const InitSpec& spec) {
  if (spec.kind == InitSpec::Kind::kNormal) return normal_draw(spec.a, spec.b);
  if (spec.kind == InitSpec::Kind::kUniform) return uniform_draw(spec.a, spec.b);
  return truncated_normal_draw(spec.a, spec.b, spec.low, spec.high);
}

}  // namespace

InitSpec constant(double value) {
  return {.kind = InitSpec::Kind::kConstant, .a = value};
}
InitSpec zeros() { return constant(0); }
InitSpec ones() { return constant(1); }
InitSpec normal(double mean, double std) {
  return {.kind = InitSpec::Kind::kNormal, .a = mean, .b = std};
}
InitSpec truncated_normal(double mean, double std, double low, double high) {
  return {.kind = InitSpec::Kind::kTruncatedNormal,
          .a = mean,
          .b = std,
          .low = low,
          .high = high};
}
InitSpec uniform(double low, double high) {
  return {.kind = InitSpec::Kind::kUniform, .a = low, .b = high};
}
InitSpec kaiming_uniform(int64_t fan_in) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return uniform(-bound, bound);
}

std::string to_string(const InitSpec& spec) {
  std::ostringstream text;
  const auto list = [&](const char* name, std::initializer_list<double> numbers) {
    text << name;
    const char* before = "(";
    for (const double number : numbers) text << std::exchange(before, ", ") << number;
    text << ')';
  };
  switch (spec.kind) {
    case InitSpec::Kind::kConstant:
      list("constant", {spec.a});
      break;
    case InitSpec::Kind::kNormal:
      list("normal", {spec.a, spec.b});
      break;
    case InitSpec::Kind::kUniform:
      list("uniform", {spec.a, spec.b});
      break;
    case InitSpec::Kind::kTruncatedNormal:
      list("truncated_normal", {spec.a, spec.b, spec.low, spec.high});
  }
  if (spec.zero_row_begin >= 0)
    text << ", zeros from " << spec.zero_row_begin << " to " << spec.zero_row_end;
  return text.str();
}

std::string problem_of(const InitSpec& spec) {
  using Kind = InitSpec::Kind;
  const bool is_truncated = spec.kind == Kind::kTruncatedNormal;
  for (const double number : {spec.a, spec.b})
    if (!(std::abs(number) <= kLargest)) return "numbers that a float holds";
  if (spec.kind == Kind::kUniform && spec.a > spec.b) return "low <= high";
  if (spec.kind == Kind::kUniform && spec.b - spec.a > kLargest)
    return "high - low that a float holds";
  if (is_truncated && !(spec.low <= spec.high)) return "low <= high";
  if ((is_truncated || spec.kind == Kind::kNormal) && !(spec.b >= 0)) return "std >= 0";
  // Its quantiles are told apart in fp32.
  if (is_truncated && spec.high > spec.low &&
      spec.b > kMostWindows * (spec.high - spec.low))
    return "std of at most 1000 times high - low; else uniform";
  return "";
}

void fill(const InitSpec& spec, uint64_t seed, const std::string& fqn, int64_t begin,
          std::span<float> values) {
  if (spec.kind == InitSpec::Kind::kConstant) {
    std::ranges::fill(values, static_cast<float>(spec.a));
  } else {
    fill_random(draw_of(spec), hash_key(seed, fqn), begin, values);
  }
  const int64_t end = begin + static_cast<int64_t>(values.size());
  for (int64_t i = std::max(begin, spec.zero_row_begin);
       i < std::min(end, spec.zero_row_end); ++i) {
    values[i - begin] = 0;
  }
}

}  // namespace zero
