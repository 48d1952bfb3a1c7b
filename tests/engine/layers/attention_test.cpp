// Attention that sees a window, or documents of their own: stretch by stretch.
#include <gtest/gtest.h>

#include "engine/layers/torch/eager.h"
#include "tests/engine/layers/layer_story.h"
#include "zero/layers.h"

namespace zero::testing::attention_test {
namespace {

// Queries of six heads, keys and values of two.
Tensors heads(int64_t rows, int64_t length, int64_t head_dim = 8) {
  const auto random = [&](int64_t num_heads) {  // as projections leave them
    return at::randn({rows, length, num_heads, head_dim}, at::kDouble).transpose(1, 2);
  };
  return {random(6), random(2), random(2)};
}

at::Tensor ends_of(const std::vector<std::vector<int64_t>>& rows) {
  std::vector<at::Tensor> parts;
  for (const std::vector<int64_t>& row : rows)
    parts.push_back(at::tensor(row, at::kLong));
  return at::stack(parts);
}

LayerFunction ours(int64_t window, const at::Tensor& ends = {}) {
  return [=](const Tensors& in) {
    return causal_attention(in[0], in[1], in[2], ends, window);
  };
}
LayerFunction expression(int64_t window, const at::Tensor& ends = {}) {
  return [=](const Tensors& in) {
    return eager::causal_attention(in[0], in[1], in[2], ends, window, /*dropout=*/0);
  };
}

void expect_the_same(const Tensors& inputs, int64_t window, const at::Tensor& ends) {
  const LayerFunction one = ours(window, ends), other = expression(window, ends);
  EXPECT_TRUE(at::allclose(one(inputs), other(inputs), 1e-11, 1e-13)) << window;
  const Tensors found = gradients_of(one, inputs, 3);
  const Tensors expected = gradients_of(other, inputs, 3);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-10, 1e-12)) << window << " " << i;
}

// Shorter than a stretch, as long as one, and stretches that end with the row or before.
TEST(CausalAttention, WithAWindowIsTheExpression) {
  at::manual_seed(1);
  for (const int64_t length : {2, 65, 200, 450}) {
    const Tensors inputs = heads(2, length);
    for (const int64_t window : {1, 2, 64, 130, 300})
      if (window < length) expect_the_same(inputs, window, {});
  }
}

TEST(CausalAttention, OfDocumentsIsTheExpression) {
  at::manual_seed(2);
  const at::Tensor ends = ends_of({{1, 70, 200, 200}, {90, 91, 92, 200}});
  for (const int64_t window : {0, 1, 3, 65, 129})
    expect_the_same(heads(2, 200), window, ends);
}

TEST(CausalAttention, SeesTheKeysOfItsWindowAlone) {
  constexpr int64_t kLength = 150, kWindow = 70;
  at::manual_seed(3);
  Tensors inputs = heads(1, kLength);
  inputs[1].requires_grad_();
  const at::Tensor y = ours(kWindow)(inputs);
  for (const int64_t query : {0, 69, 70, 99, 149}) {
    const at::Tensor grad =
        torch::autograd::grad({y.select(2, query).sum()}, {inputs[1]}, {},
                              /*retain_graph=*/true)[0];
    const at::Tensor seen = grad.abs().sum({0, 1, 3}) > 1e-5;  // (T), by the key
    for (int64_t key = 0; key < kLength; ++key)
      EXPECT_EQ(seen[key].item<bool>(), query > 0 && key <= query && key > query - kWindow)
          << query << " " << key;
  }
}

// Without any, and where the window or the only document is the row.
TEST(CausalAttention, ThatSeesAllIsLibTorchs) {
  at::manual_seed(4);
  const Tensors inputs = in_type(heads(2, 40), at::kFloat);
  const at::Tensor expected = expression(0)(inputs);
  for (const int64_t window : {0, 40, 41})
    EXPECT_TRUE(same_bits(ours(window)(inputs), expected)) << window;
  EXPECT_TRUE(same_bits(ours(0, ends_of({{40}, {40}}))(inputs), expected));
  EXPECT_TRUE(same_bits(causal_attention(inputs[0], inputs[1], inputs[2]), expected));
}

TEST(CausalAttention, IsAsExactAsTheExpression) {
  at::manual_seed(5);
  const at::Tensor ends = ends_of({{333, 700}, {100, 700}});
  const Tensors inputs = heads(2, 700, 32);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Tensors rounded = in_type(inputs, type), wide = in_type(rounded, at::kDouble);
    for (const at::Tensor& packs : {at::Tensor(), ends}) {
      const LayerFunction one = ours(100, packs), other = expression(100, packs);
      EXPECT_LE(error_of(one(rounded), other(wide)),
                1.5 * error_of(other(rounded), other(wide)))
          << type;
      const Tensors exact = gradients_of(other, wide, 3);
      const Tensors found = gradients_of(one, rounded, 3);
      const Tensors theirs = gradients_of(other, rounded, 3);
      for (size_t i = 0; i < 3; ++i)
        EXPECT_LE(error_of(found[i], exact[i]), 1.5 * error_of(theirs[i], exact[i]))
            << type << " " << i;
    }
  }
}

// Of one document in a row, in the middle of others, and with others of the same length.
TEST(CausalAttention, OfADocumentHasNoBitOfAnother) {
  at::manual_seed(6);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t window : {0, 66}) {
      const Tensors inputs = in_type(heads(1, 300), type),
                    others = in_type(heads(1, 300), type);
      Tensors alone, changed;
      for (size_t i = 0; i < 3; ++i) {
        alone.push_back(inputs[i].narrow(2, 80, 150));
        changed.push_back(others[i].clone());
        changed[i].narrow(2, 80, 150).copy_(alone[i]);
      }
      const at::Tensor ends = ends_of({{80, 230, 300}});
      const at::Tensor expected = ours(window)(alone);
      for (const Tensors& row : {inputs, changed})
        EXPECT_TRUE(same_bits(ours(window, ends)(row).narrow(2, 80, 150),
                              ours(window, ends_of({{150}}))(alone)));
      EXPECT_TRUE(at::allclose(ours(window, ends)(inputs).narrow(2, 80, 150), expected,
                               1e-2, 1e-2));
    }
  }
}

TEST(CausalAttention, GivesTheSameBitsOnTwoThreads) {
  at::manual_seed(7);
  const int before = at::get_num_threads();
  const Tensors inputs = in_type(heads(2, 500), at::kFloat);
  const LayerFunction function = ours(100, ends_of({{77, 500}, {400, 500}}));
  std::vector<Tensors> found;
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    found.push_back(gradients_of(function, inputs, 3));
    found.back().push_back(function(inputs));
  }
  at::set_num_threads(before);
  EXPECT_TRUE(same_bits(found[0], found[1]));
}

// What is no view of anything, of any layout, and what needs gradients in part.
TEST(CausalAttention, TakesAnyLayoutAndGivesTheGradientsThatAreNeeded) {
  at::manual_seed(8);
  Tensors inputs = in_type(heads(2, 90), at::kFloat);
  const at::Tensor expected = ours(20)(inputs);
  const Tensors all = gradients_of(ours(20), inputs, 3);
  Tensors odd;
  for (const at::Tensor& input : inputs)
    odd.push_back(input.transpose(2, 3).contiguous().transpose(2, 3));
  EXPECT_TRUE(same_bits(ours(20)(odd), expected));
  EXPECT_TRUE(same_bits(gradients_of(ours(20), odd, 3), all));
  EXPECT_TRUE(same_bits(gradients_of(ours(20), inputs, 1)[0], all[0]));
  inputs[2].requires_grad_();
  const at::Tensor one = at::ones({}, at::kFloat).expand(expected.sizes());
  const auto grad = [&](const at::Tensor& given) {
    return torch::autograd::grad({ours(20)(inputs)}, {inputs[2]}, {given})[0];
  };
  EXPECT_TRUE(same_bits(grad(one), grad(one.contiguous())));
}

TEST(CausalAttention, RefusesWhatDoesNotFit) {
  const Tensors in = heads(2, 10);
  const auto refuses = [&](const at::Tensor& ends, const std::string& text) {
    try {
      causal_attention(in[0], in[1], in[2], ends);
      ADD_FAILURE() << "took " << ends;
    } catch (const c10::ValueError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  refuses(ends_of({{5, 10}}), "some for each of 2 rows");
  refuses(ends_of({{5, 10}, {5, 10}}).to(at::kInt), "int64");
  refuses(ends_of({{5, 4, 10}, {1, 2, 10}}), "in row 0 a document ends at 4");
  refuses(ends_of({{5, 10}, {-1, 10}}), "in row 1 a document ends at -1");
  refuses(ends_of({{5, 10}, {5, 9}}), "in row 1 the last document ends at 9, not at 10");
  EXPECT_THROW(causal_attention(in[0], in[1], in[2], -1), c10::ValueError);
  EXPECT_THROW(causal_attention(in[1], in[0], in[0], 1), c10::ValueError);
  EXPECT_THROW(causal_attention(in[0], in[1], in[2].narrow(2, 0, 5), 1), c10::ValueError);
}

}  // namespace
}  // namespace zero::testing::attention_test
