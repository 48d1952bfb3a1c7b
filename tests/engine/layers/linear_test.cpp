// linear() of few rows, beside LibTorch's.
#include <gtest/gtest.h>

#include "tests/engine/layers/layer_story.h"
#include "zero/layers.h"

namespace zero::testing::linear_test {
namespace {

class LinearTest : public ::testing::Test {
 protected:
  LinearTest() { at::manual_seed(7); }

  // As exact as LibTorch's.
  void expect_exact(const at::Tensor& x, const at::Tensor& weight,
                    const at::Tensor& bias = {}) {
    const at::Tensor exact = at::linear(x.to(at::kDouble), weight.to(at::kDouble),
                                        bias.defined() ? bias.to(at::kDouble) : bias);
    const at::Tensor ours = linear(x, weight, bias), eager = at::linear(x, weight, bias);
    ASSERT_EQ(ours.sizes(), eager.sizes());
    ASSERT_EQ(ours.scalar_type(), eager.scalar_type());
    // Of few elements either may be lucky.
    const double an_ulp = 1.2e-7 * exact.norm().item<double>();
    EXPECT_LE(error_of(ours, exact), 1.5 * error_of(eager, exact) + an_ulp);
  }

  void expect_same_bits_of_a_row(const at::Tensor& weight) {
    const at::Tensor x = at::randn({4, weight.size(1)});
    const at::Tensor together = linear(x, weight, at::Tensor());
    const int threads = at::get_num_threads();
    for (const int count : {1, 2, 3}) {
      at::set_num_threads(count);
      for (int64_t rows = 1; rows <= 4; ++rows)
        EXPECT_TRUE(same_bits(linear(x.narrow(0, 4 - rows, rows), weight, at::Tensor()),
                              together.narrow(0, 4 - rows, rows)))
            << rows << " rows of " << weight.sizes() << ", " << count << " threads";
    }
    at::set_num_threads(threads);
  }

  const torch::NoGradGuard no_grad;
  const FewRowsScope few_rows;
};

TEST_F(LinearTest, IsAsExactAsLibTorchs) {
  for (const int64_t rows : {1, 2, 3, 4, 7, 17}) {
    for (const auto& [in, out] :
         {std::pair(1, 1), {31, 200}, {32, 3}, {100, 65}, {4864, 40}, {1000, 1300}}) {
      SCOPED_TRACE(::testing::Message() << rows << " of " << in << " to " << out);
      const at::Tensor x = at::randn({rows, in}), weight = at::randn({out, in});
      expect_exact(x, weight);
      expect_exact(x, weight, at::randn({out}));
      expect_exact(x, at::randn({in, out}).t(), at::randn({out}));
    }
  }
}

TEST_F(LinearTest, TakesAnyShapeAndLayout) {
  const at::Tensor weight = at::randn({24, 40}), bias = at::randn({24});
  expect_exact(at::randn({40}), weight, bias);
  expect_exact(at::randn({2, 1, 40}), weight, bias);
  expect_exact(at::randn({40, 3}).t(), weight, bias);
  expect_exact(at::randn({2, 80}).slice(1, 0, 80, 2), weight, bias);
  expect_exact(at::randn({2, 40}), at::randn({40, 24}).t(), bias);
  expect_exact(at::randn({2, 40}), weight, at::randn({48}).slice(0, 0, 48, 2));
  expect_exact(at::randn({0, 40}), weight, bias);
}

// Neither other rows nor threads change a row's bits.
TEST_F(LinearTest, ARowHasTheSameBitsWhateverIsBesideIt) {
  for (const int64_t in : {700, 5000}) {
    expect_same_bits_of_a_row(at::randn({301, in}));
    expect_same_bits_of_a_row(at::randn({in, 1301}).t());
  }
}

TEST_F(LinearTest, OtherTypesAndMoreRowsAreLibTorchs) {
  const at::Tensor weight = at::randn({24, 40}), bias = at::randn({24});
  for (const auto type : {at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 40}).to(type), w = weight.to(type);
    EXPECT_TRUE(same_bits(linear(x, w, bias.to(type)), at::linear(x, w, bias.to(type))));
  }
  const at::Tensor many = at::randn({17, 40});
  EXPECT_TRUE(same_bits(linear(many, weight, bias), at::linear(many, weight, bias)));
  EXPECT_THROW(linear(at::randn({2, 41}), weight, bias), c10::Error);
  EXPECT_THROW(linear(many.to(at::kDouble), weight, bias), c10::Error);
}

TEST_F(LinearTest, GradientsAreLibTorchs) {
  const torch::AutoGradMode with_grad(true);
  const Tensors inputs = {at::randn({2, 40}), at::randn({24, 40}), at::randn({24})};
  const auto gradients = [&](auto function) {
    return gradients_of([&](const Tensors& in) { return function(in[0], in[1], in[2]); },
                        inputs, 3);
  };
  EXPECT_TRUE(same_bits(gradients(linear),
                        gradients([](auto&... in) { return at::linear(in...); })));
}

// Also without gradients: what a unit's first forward has, its recomputation must have.
TEST(LinearOutsideOfItsScope, IsLibTorchs) {
  at::manual_seed(7);
  const torch::NoGradGuard no_grad;
  const at::Tensor x = at::randn({2, 700}), weight = at::randn({301, 700});
  const at::Tensor bias = at::randn({301});
  { const FewRowsScope over; }
  EXPECT_TRUE(same_bits(linear(x, weight, bias), at::linear(x, weight, bias)));
}

}  // namespace
}  // namespace zero::testing::linear_test
