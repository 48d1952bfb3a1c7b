#include "offload/random.h"

#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "offload/kernels.h"

namespace zero {
namespace {

// The probability that a normal number is below z; precise for small ones.
double probability_below(double z) {
  return 0.5 * std::erfc(-z * std::numbers::sqrt2 / 2);
}

}  // namespace

NormalDraw normal_draw(double mean, double std) {
  return {static_cast<float>(mean), static_cast<float>(std)};
}

UniformDraw uniform_draw(double low, double high) {
  return {static_cast<float>(low / 2 + high / 2), static_cast<float>(high - low),
          static_cast<float>(low), static_cast<float>(high)};
}

TruncatedNormalDraw truncated_normal_draw(double mean, double std, double low,
                                          double high) {
  TruncatedNormalDraw draw{.mean = static_cast<float>(mean),
                           .std = static_cast<float>(std::abs(std)),
                           .low = static_cast<float>(low),
                           .high = static_cast<float>(high)};
  if (std == 0) return draw;
  const double from = (low - mean) / std::abs(std), to = (high - mean) / std::abs(std);
  // The smaller tails are subtracted, so that a part of one keeps its digits.
  const double inside = from > 0 ? probability_below(-from) - probability_below(-to)
                                 : probability_below(to) - probability_below(from);
  draw.below = static_cast<float>(probability_below(from));
  draw.inside = static_cast<float>(inside);
  draw.above = static_cast<float>(probability_below(-to));
  return draw;
}

void fill_random(const Draw& draw, uint64_t key, int64_t begin, std::span<float> values) {
  fastest_kernels().fill(draw, key, begin, values);
}

uint64_t hash_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a over the name, mixed with the seed
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return mixed(hash ^ splitmix(seed));
}

uint64_t hash_key(uint64_t seed, uint64_t value) { return mixed(splitmix(seed) + value); }

}  // namespace zero
