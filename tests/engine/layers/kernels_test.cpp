// All instruction sets of this processor give the same bits.
#include "engine/layers/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace zero::testing::layer_kernels_test {
namespace {

template <class T>
using Values = std::vector<T>;

template <class T>
Values<T> some_values(size_t n, double phase) {
  Values<T> values(n);
  for (size_t i = 0; i < n; ++i) {
    const double value = 3 * std::sin(phase + 1.7 * static_cast<double>(i));
    put(static_cast<Wide<T>>(value), values[i]);
  }
  return values;
}

// What a pass writes into `results`, which it has pointers to.
template <class T>
struct Written {
  Values<T> first, second;
  Values<Wide<T>> wide;
  Values<double> exact;
  bool operator==(const Written& other) const {
    const auto same = [](const auto& a, const auto& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
    };
    return same(first, other.first) && same(second, other.second) &&
           same(wide, other.wide) && same(exact, other.exact);
  }
};

template <class T>
class LayerKernelsOf : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 70, kDim = 75;
  const Values<T> x = some_values<T>(kRows * kDim, 0.1);
  const Values<T> grad = some_values<T>(kRows * kDim, 0.2);
  const Values<T> weight = some_values<T>(kDim, 0.3);
  const Values<T> cos = some_values<T>(7 * 37, 0.4), sin = some_values<T>(7 * 37, 0.5);

  // make(written) is the pass, `numel` items of which are run.
  template <class Make>
  void expect_same(int64_t numel, Make make) {
    std::vector<Written<T>> all;
    for (const LayerKernels& kernels : layer_kernels()) {
      Written<T> written{Values<T>(kRows * kDim), Values<T>(kRows * kDim),
                         Values<Wide<T>>(kRows * kDim), Values<double>(kRows)};
      kernels.run(make(written), 0, numel);
      all.push_back(written);
      EXPECT_TRUE(all.back() == all.front()) << kernels.isa;
    }
  }

  template <Pairs kPairs>
  void expect_same_rotation() {
    expect_same(14, [this](Written<T>& to) {
      return RotatePass<T, kPairs>{.x = x.data(),
                                   .cos = cos.data(),
                                   .sin = sin.data(),
                                   .y = to.first.data(),
                                   .from = {5 * 7 * kDim, kDim, 5 * kDim},
                                   .to = {5 * 7 * kDim, 7 * kDim, kDim},
                                   .num_heads = 5,
                                   .length = 7,
                                   .dim = kDim,
                                   .half = 37,
                                   .num_angles = 7,
                                   .direction = -1,
                                   .opposite = 1};
    });
  }
};

using Elements = ::testing::Types<float, Bf16, Fp16, double>;
TYPED_TEST_SUITE(LayerKernelsOf, Elements);

TYPED_TEST(LayerKernelsOf, Norms) {
  using T = TypeParam;
  this->expect_same(this->kRows, [this](Written<T>& to) {
    return RmsNormPass<T>{this->x.data(), this->weight.data(), to.first.data(),
                          to.wide.data(), this->kDim,          Wide<T>(1e-5)};
  });
}

TYPED_TEST(LayerKernelsOf, NormsOfSums) {
  using T = TypeParam;
  this->expect_same(this->kRows, [this](Written<T>& to) {
    return RmsNormPass<T>{this->x.data(),    this->weight.data(), to.first.data(),
                          to.wide.data(),    this->kDim,          Wide<T>(1e-5),
                          this->grad.data(), to.second.data()};
  });
}

TYPED_TEST(LayerKernelsOf, GradientsOfNorms) {
  using T = TypeParam;
  const Values<Wide<T>> scales(this->kRows, Wide<T>(0.7));
  this->expect_same(3, [&](Written<T>& to) {
    return RmsNormBackwardPass<T>{this->x.data(), this->weight.data(), this->grad.data(),
                                  scales.data(),  to.first.data(),     nullptr,
                                  this->kRows,    this->kDim,          this->x.data()};
  });
  this->expect_same(3, [&](Written<T>& to) {
    return RmsNormBackwardPass<T>{this->x.data(), this->weight.data(), this->grad.data(),
                                  scales.data(),  to.first.data(),     to.wide.data(),
                                  this->kRows,    this->kDim};
  });
  const Values<Wide<T>> sums = some_values<Wide<T>>(3 * this->kDim, 0.6);
  this->expect_same(2, [&](Written<T>& to) {
    return SumBlocksPass<T>{sums.data(), to.first.data(), 3, this->kDim};
  });
}

TYPED_TEST(LayerKernelsOf, Gates) {
  using T = TypeParam;
  const int64_t numel = std::ssize(this->x);
  this->expect_same(numel, [this](Written<T>& to) {
    return SwiGluPass<T>{this->x.data(), this->grad.data(), to.first.data()};
  });
  this->expect_same(numel, [this](Written<T>& to) {
    return SwiGluBackwardPass<T>{this->grad.data(), this->x.data(), this->x.data(),
                                 to.first.data(), to.second.data()};
  });
}

TYPED_TEST(LayerKernelsOf, Gelus) {
  using T = TypeParam;
  const int64_t numel = std::ssize(this->x);
  this->expect_same(numel, [this](Written<T>& to) {
    return GeluPass<T>{this->x.data(), to.first.data()};
  });
  this->expect_same(numel, [this](Written<T>& to) {
    return GeluBackwardPass<T>{this->grad.data(), this->x.data(), to.first.data()};
  });
}

TYPED_TEST(LayerKernelsOf, Losses) {
  using T = TypeParam;
  std::vector<int64_t> targets(this->kRows, -1);
  for (int64_t i = 0; i < this->kRows; i += 2) targets[i] = i % this->kDim;
  this->expect_same(this->kRows, [&, this](Written<T>& to) {
    return CrossEntropyPass<T>{this->x.data(), targets.data(), to.exact.data(),
                               to.wide.data(), this->kDim};
  });
  const Values<Wide<T>> kept(this->kRows * kNumbersOfRow, Wide<T>(0.3));
  const Wide<T> factor = 0.7;
  this->expect_same(this->kRows, [&, this](Written<T>& to) {
    to.first = this->x;
    return CrossEntropyBackwardPass<T>{to.first.data(), targets.data(), kept.data(),
                                       &factor, this->kDim};
  });
}

TYPED_TEST(LayerKernelsOf, SumsOfLosses) {
  this->expect_same(1, [this](Written<TypeParam>& to) {
    to.exact = some_values<double>(3000, 0.4);
    return SumLossesPass{to.exact.data(), &to.exact[2999], 2999};
  });
}

template <class Pass>
void expect_same_products() {
  constexpr int64_t kRows = 7, kIn = 75, kOut = 20;
  const Values<float> x = some_values<float>(kRows * kIn, 0.1);
  const Values<float> weight = some_values<float>(kOut * kIn, 0.2);
  const Values<float> bias = some_values<float>(kOut, 0.3);
  Values<float> first;
  for (const LayerKernels& kernels : layer_kernels()) {
    Values<float> y(kRows * kOut);
    kernels.run(Pass{x.data(), weight.data(), bias.data(), y.data(), kRows, kIn, kOut}, 0,
                kOut);
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(y.data(), first.data(), y.size() * sizeof(float)), 0)
        << kernels.isa;
  }
}

TEST(LayerKernels, Products) {
  expect_same_products<LinearPass>();
  expect_same_products<TransposedLinearPass>();
}

TYPED_TEST(LayerKernelsOf, Rotations) {
  this->template expect_same_rotation<Pairs::kHalves>();
  this->template expect_same_rotation<Pairs::kNeighbours>();
}

}  // namespace
}  // namespace zero::testing::layer_kernels_test
