#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/dtype.h"
#include "base/host_device.h"

// What layers do to one element. Nothing here may depend on an instruction set; compile
// with -ffp-contract=off.
namespace zero {

// Elements as they lie in memory; those of fp32 and fp64 are float and double.
struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

// What an element is computed in: fp64 in itself, all others in fp32.
template <class T>
struct WideOf {
  using Type = float;
};
template <>
struct WideOf<double> {
  using Type = double;
};
template <class T>
using Wide = typename WideOf<T>::Type;

ZERO_HOST_DEVICE float wide(float value) { return value; }
ZERO_HOST_DEVICE double wide(double value) { return value; }
ZERO_HOST_DEVICE float wide(Bf16 value) { return bf16_to_float(value.bits); }
ZERO_HOST_DEVICE float wide(Fp16 value) { return fp16_to_float(value.bits); }

ZERO_HOST_DEVICE void put(float value, float& to) { to = value; }
ZERO_HOST_DEVICE void put(double value, double& to) { to = value; }
ZERO_HOST_DEVICE void put(float value, Bf16& to) { to.bits = float_to_bf16(value); }
ZERO_HOST_DEVICE void put(float value, Fp16& to) { to.bits = float_to_fp16(value); }

// What a tensor of T between two operators would do to a value.
template <class T>
ZERO_HOST_DEVICE Wide<T> rounded(Wide<T> value) {
  T stored;
  put(value, stored);
  return wide(stored);
}

// e^x, at most 1 ulp off: 2^k e^r with |r| <= ln 2 / 2. Below -87 it is 0: what floats
// hold there is nothing beside 1. Coefficients are those of Cephes' expf.
ZERO_HOST_DEVICE float exp_of(float x) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: what is added becomes whole
  constexpr float kLeast = -87, kLargest = 88.7228317f;  // the exponential is finite
  const float bounded = x < kLeast ? kLeast : x;
  const float shifted = bounded * 1.44269504f + kRound;
  const float k = shifted - kRound;
  const float r = (bounded - k * 0.693359375f) - k * -2.12194440e-4f;  // two parts of ln
                                                                       // 2
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float power = (p * (r * r) + r) + 1;
  // Times 2^k, in its exponent: within float's range up to kLargest.
  const uint32_t bits =
      std::bit_cast<uint32_t>(power) + (std::bit_cast<uint32_t>(shifted) << 23);
  const float within = x < kLeast ? 0 : std::bit_cast<float>(bits);
  const float above = x + std::numeric_limits<float>::infinity();  // or not a number
  return x <= kLargest ? within : above;
}
ZERO_HOST_DEVICE double exp_of(double x) { return std::exp(x); }

template <class T>
ZERO_HOST_DEVICE void add_element(T a, T b, T& sum) {
  put(wide(a) + wide(b), sum);
}

// Of a row with this mean of squares.
template <class W>
ZERO_HOST_DEVICE W rms_scale(W mean_square, W eps) {
  return 1 / std::sqrt(mean_square + eps);
}

template <class T>
ZERO_HOST_DEVICE void rms_norm_element(T x, T weight, Wide<T> scale, T& y) {
  put(wide(weight) * rounded<T>(wide(x) * scale), y);
}

// Its mean in the row is what the gradient of x takes.
template <class T>
ZERO_HOST_DEVICE Wide<T> rms_norm_product(T grad, T weight, T x, Wide<T> scale) {
  return wide(grad) * wide(weight) * (wide(x) * scale);
}

// The gradient of x, of whose row `mean` is the mean of rms_norm_product().
template <class T>
ZERO_HOST_DEVICE void rms_norm_gradient(T grad, T weight, T x, Wide<T> scale,
                                        Wide<T> mean, T& x_grad) {
  put(scale * (wide(grad) * wide(weight) - wide(x) * scale * mean), x_grad);
}

// What a row adds to the gradient of the weight.
template <class T>
ZERO_HOST_DEVICE Wide<T> rms_norm_weight_gradient(T grad, T x, Wide<T> scale) {
  return wide(grad) * rounded<T>(wide(x) * scale);
}

template <class T>
ZERO_HOST_DEVICE void swiglu_element(T gate, T up, T& y) {
  const Wide<T> x = wide(gate);
  put(rounded<T>(x / (1 + exp_of(-x))) * wide(up), y);
}

template <class T>
ZERO_HOST_DEVICE void swiglu_gradient(T grad, T gate, T up, T& gate_grad, T& up_grad) {
  const Wide<T> x = wide(gate), below = 1 + exp_of(-x), sigmoid = 1 / below;
  const Wide<T> silu_grad = rounded<T>(wide(grad) * wide(up));
  put(wide(grad) * rounded<T>(x / below), up_grad);
  put(silu_grad * sigmoid * (1 + x * (1 - sigmoid)), gate_grad);
}

// GELU, 0.5 x (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), is x times
// 1 / (1 + e^-2u), which does not cancel where tanh is next to -1. This is e^-|2u|.
template <class W>
ZERO_HOST_DEVICE W gelu_power(W x) {
  constexpr W kTwice = static_cast<W>(1.5957691216057307118);  // 2 sqrt(2 / pi)
  const W twice = kTwice * (x + static_cast<W>(0.044715) * (x * x * x));
  return exp_of(twice < 0 ? twice : -twice);
}

template <class T>
ZERO_HOST_DEVICE void gelu_element(T x, T& y) {
  const Wide<T> w = wide(x), power = gelu_power(w);
  put(w * ((w < 0 ? power : 1) / (1 + power)), y);
}

template <class T>
ZERO_HOST_DEVICE void gelu_gradient(T grad, T x, T& x_grad) {
  using W = Wide<T>;
  constexpr W kTwice = static_cast<W>(1.5957691216057307118);
  constexpr W kCubic = static_cast<W>(0.21406444881780073389);  // 3 * 0.044715 kTwice
  const W w = wide(x), power = gelu_power(w), part = 1 / (1 + power);
  const W share = (w < 0 ? power : 1) * part;
  const W slope = power * part * part * (kTwice + kCubic * (w * w));  // of the share
  put(wide(grad) * (share + w * slope), x_grad);
}

// A logit's share of its row's sum of exponentials, which are those of the distance to
// the row's largest logit.
template <class T>
ZERO_HOST_DEVICE Wide<T> softmax_term(T logit, Wide<T> largest) {
  return exp_of(wide(logit) - largest);
}

// The natural logarithm of a sum of at least 1, as fdlibm computes it: libraries of hosts
// and GPUs differ in the last bit.
ZERO_HOST_DEVICE double log_of(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr uint64_t kOne = 0x3FF0000000000000, kRootOfHalf = 0x3FE6A09E667F3BCD;
  // x = 2^k (1 + f), with 1 + f between the roots of 1/2 and of 2.
  const uint64_t shifted = std::bit_cast<uint64_t>(x) + (kOne - kRootOfHalf);
  const auto k = static_cast<double>(static_cast<int64_t>(shifted >> 52) - 1023);
  const uint64_t fraction = shifted & 0x000FFFFFFFFFFFFF;
  const double f = std::bit_cast<double>(fraction + kRootOfHalf) - 1;
  const double s = f / (2 + f), z = s * s, w = z * z;
  const double even = w * (3.999999999940941908e-01 +
                           w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  const double odd =
      z * (6.666666666666735130e-01 +
           w * (2.857142874366239149e-01 +
                w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  const double half = 0.5 * f * f;
  const double log =
      k * kLn2High - ((half - (s * (half + (even + odd)) + k * kLn2Low)) - f);
  return x < std::numeric_limits<double>::infinity() ? log : x;  // or not a number
}

template <class W>
ZERO_HOST_DEVICE double row_loss(W sum, W largest, W of_target) {
  return log_of(double{sum}) + (double{largest} - double{of_target});
}

// The loss's gradient of a logit that is not the target, by 1 / the row's sum times the
// loss's own gradient; that of the target is less by the latter.
template <class T>
ZERO_HOST_DEVICE void cross_entropy_gradient(T logit, Wide<T> largest, Wide<T> scale,
                                             Wide<T> less, T& grad) {
  put(softmax_term(logit, largest) * scale - less, grad);
}

// To (a cos + b minus_sin, b cos + a sin). Both products are rounded, as between two
// operators. A difference beside a sum is what gcc 12 fuses with the products on AVX-512,
// whatever it was told.
template <class T>
ZERO_HOST_DEVICE void rotate_pair(T a, T b, T cos, Wide<T> sin, Wide<T> minus_sin,
                                  T& to_a, T& to_b) {
  const Wide<T> c = wide(cos);
  put(rounded<T>(wide(a) * c) + rounded<T>(wide(b) * minus_sin), to_a);
  put(rounded<T>(wide(b) * c) + rounded<T>(wide(a) * sin), to_b);
}

}  // namespace zero
