#pragma once

#include <cstdint>
#include <span>
#include <variant>

namespace zero {

// What the words of Philox become, one an element. Scalars are made in fp64 and rounded
// once; elements are made in fp32, every operation rounded: see random_loop.h.

struct NormalDraw {
  float mean = 0, std = 1;
};

// Between its bounds lie 2^24 equal steps; an element is the middle of one.
struct UniformDraw {
  float middle = 0, width = 1;
  float low = -0.5f, high = 0.5f;
};

// What a normal number is where it is known to lie inside: the inverse of the normal
// distribution function, of one uniform number between the bounds' probabilities.
struct TruncatedNormalDraw {
  float mean = 0, std = 1;
  float below = 0, inside = 1, above = 0;  // the normal's probabilities
  float low = 0, high = 0;                 // in values
};

using Draw = std::variant<NormalDraw, UniformDraw, TruncatedNormalDraw>;

NormalDraw normal_draw(double mean, double std);
UniformDraw uniform_draw(double low, double high);

// Bounds are values, not deviations. Where fp32 knows no probability for what lies
// between them (13 deviations away), every element is the bound nearer to the mean.
TruncatedNormalDraw truncated_normal_draw(double mean, double std, double low,
                                          double high);

// Make elements [begin, begin + values.size()) of the endless tensor that `key` names, on
// the calling thread. Element i is a function of (draw, key, i) alone: the same bits in
// any pieces, on any instruction set. `begin` is not negative.
void fill_random(const Draw& draw, uint64_t key, int64_t begin, std::span<float> values);

}  // namespace zero
