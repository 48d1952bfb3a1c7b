#include "engine/init/init_spec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "engine/init/philox.h"

namespace zero {
namespace {

// Two numbers in (0, 1) from 53 bits each.
std::array<double, 2> uniforms(uint64_t key, uint64_t block, uint64_t attempt) {
  const std::array<uint32_t, 4> r = philox(key, block, attempt);
  const auto unit = [](uint32_t high, uint32_t low) {
    return (static_cast<double>((uint64_t{high} << 32 | low) >> 11) + 0.5) * 0x1p-53;
  };
  return {unit(r[0], r[1]), unit(r[2], r[3])};
}

// Box and Muller, 1958.
std::array<double, 2> normals(uint64_t key, uint64_t block, uint64_t attempt) {
  const auto [u, v] = uniforms(key, block, attempt);
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double truncated(const InitSpec& spec, uint64_t key, int64_t element) {
  // An element draws from its own counters until it falls inside.
  for (uint64_t attempt = 0;; ++attempt) {
    for (const double z : normals(key, static_cast<uint64_t>(element), attempt)) {
      const double value = spec.a + spec.b * z;
      if (value >= spec.low && value <= spec.high) return value;
    }
    if (attempt == 1000) return std::clamp(spec.a, spec.low, spec.high);
  }
}

// Elements 2 * block and the next one, of what is drawn in pairs.
std::array<double, 2> pair_of(const InitSpec& spec, uint64_t key, uint64_t block) {
  const bool is_normal = spec.kind == InitSpec::Kind::kNormal;
  const double scale = is_normal ? spec.b : spec.b - spec.a;
  const auto [u, v] = is_normal ? normals(key, block, 0) : uniforms(key, block, 0);
  return {spec.a + scale * u, spec.a + scale * v};
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

void fill(const InitSpec& spec, uint64_t seed, const std::string& fqn, int64_t begin,
          std::span<float> values) {
  const uint64_t key = hash_key(seed, fqn);
  const auto count = static_cast<int64_t>(values.size());
  if (spec.kind == InitSpec::Kind::kConstant) {
    std::ranges::fill(values, static_cast<float>(spec.a));
  } else if (spec.kind == InitSpec::Kind::kTruncatedNormal) {
    for (int64_t k = 0; k < count; ++k)
      values[k] = static_cast<float>(truncated(spec, key, begin + k));
  } else {
    std::array<double, 2> pair{};
    for (int64_t k = 0; k < count; ++k) {
      const auto i = static_cast<uint64_t>(begin + k);
      if (k == 0 || i % 2 == 0) pair = pair_of(spec, key, i / 2);
      values[k] = static_cast<float>(pair[i % 2]);
    }
  }
  for (int64_t i = std::max(begin, spec.zero_row_begin);
       i < std::min(begin + count, spec.zero_row_end); ++i) {
    values[i - begin] = 0;
  }
}

}  // namespace zero
