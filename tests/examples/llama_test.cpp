// Parts of Llama against their formulas; tests/references has whole models.
#include "examples/models/llama.h"

#include <gtest/gtest.h>

#include "tests/examples/references.h"

namespace zero::llama_test {
namespace {

// transformers' LlamaRMSNorm: the normalised values are rounded, then scaled.
at::Tensor formula(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const at::Tensor wide = x.to(torch::kFloat32);
  const at::Tensor variance = wide.pow(2).mean(-1, true);
  return weight * (wide * torch::rsqrt(variance + eps)).to(x.scalar_type());
}

TEST(RmsNorm, IsRoundedBeforeItIsScaled) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  for (const at::ScalarType type : {torch::kFloat32, torch::kBFloat16, torch::kHalf}) {
    RmsNormImpl norm(48, 0.01);
    norm.weight.normal_(1, 0.2);
    norm.to(type);
    const at::Tensor x = torch::randn({5, 7, 48}).to(type);
    const at::Tensor found = norm.forward(x);
    EXPECT_EQ(found.scalar_type(), type);
    const at::Tensor expected = formula(x, norm.weight, 0.01);
    if (type == torch::kFloat32)  // sums are in another order
      EXPECT_TRUE(torch::allclose(found, expected, 3e-7, 0));
    else
      EXPECT_TRUE(torch::equal(found, expected)) << type;
  }
}

TEST(RmsNorm, SquaresAreSummedInFp32) {
  RmsNormImpl norm(4, 0);
  norm.to(torch::kHalf);
  const at::Tensor x = torch::full({1, 4}, 1000, torch::kHalf);  // squares are too large
  EXPECT_TRUE(torch::equal(norm.forward(x), torch::ones({1, 4}, torch::kHalf)));
}

LlamaConfig tiny() {
  LlamaConfig config;
  config.vocab_size = 9;
  config.n_embd = config.n_inner = 8;
  config.n_positions = 0;
  config.n_layer = 1;
  config.n_head = config.num_kv_heads = 2;
  config.head_dim = config.rotary.dim = 4;
  return config;
}

TEST(Llama, ThePaddingsRowOfTheEmbeddingStays) {
  const at::Tensor tokens = torch::tensor({{1, 2, 7, 2}});
  for (const int64_t padding : {2, -7}) {  // the same one
    LlamaConfig config = tiny();
    config.padding_idx = padding;
    config.has_tied_head = false;
    const auto llama = make_llama(config);
    for (at::Tensor& weight : llama->parameters()) weight.data().normal_(0, 0.3);
    llama->forward(tokens, tokens).backward();
    const at::Tensor grad = llama->named_parameters()["model.embed_tokens.weight"].grad();
    EXPECT_EQ(grad[2].abs().sum().item<float>(), 0) << padding;
    EXPECT_GT(grad[7].abs().sum().item<float>(), 0) << padding;
  }
}

}  // namespace
}  // namespace zero::llama_test
