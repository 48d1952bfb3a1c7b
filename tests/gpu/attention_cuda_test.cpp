// causal_attention() on a GPU, beside the host's.
#include <gtest/gtest.h>

#include "tests/engine/layers/layer_story.h"
#include "zero/layers.h"

namespace zero::testing::attention_cuda_test {
namespace {

const c10::Device kGpu(c10::kCUDA, 0);

// By LibTorch's flash kernels, or, of what they do not take, by a mask.
TEST(AttentionOnAGpu, SeesWindowsAndDocumentsAsOnTheHost) {
  at::manual_seed(4);
  const at::Tensor ends = at::tensor({1, 30, 50, 20, 50, 50}, at::kLong).view({2, 3});
  for (const auto& [type, head_dim, near] : {std::tuple(at::kFloat, 16, 1e-5),
                                             {at::kBFloat16, 12, 0.03},
                                             {at::kBFloat16, 16, 0.03},
                                             {at::kHalf, 192, 0.004},
                                             {at::kHalf, 200, 0.004}}) {
    Tensors inputs;  // (B, T, H, D), as projections leave them
    for (const int64_t num_heads : {6, 2, 2})
      inputs.push_back(at::randn({2, 50, num_heads, head_dim}).to(type).transpose(1, 2));
    for (const int64_t window : {0, 1, 7}) {
      for (const at::Tensor& packs : {at::Tensor(), ends}) {
        const LayerFunction function = [&](const Tensors& in) {
          return causal_attention(in[0], in[1], in[2], packs, window);
        };
        Tensors found = gradients_of(function, on_device(inputs, kGpu), 3);
        found.push_back(function(on_device(inputs, kGpu)));
        Tensors expected = gradients_of(function, inputs, 3);
        expected.push_back(function(inputs));
        for (size_t i = 0; i < found.size(); ++i)
          EXPECT_TRUE(at::allclose(found[i].cpu().to(at::kDouble),
                                   expected[i].to(at::kDouble), near, near))
              << type << " " << head_dim << " " << window << " " << packs.defined() << " "
              << i;
      }
    }
  }
}

}  // namespace
}  // namespace zero::testing::attention_cuda_test
