#include "offload/kernels.h"

#include <gtest/gtest.h>

#include "offload/bf16.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"

namespace zero {
namespace {

// Gradients as fp32 or bf16, with a copy or without: each is a loop of its own.
struct Variant {
  bool is_bf16, has_copy;
};

AdamState run(const Kernels& kernel, Optimizer optimizer, const Variant& variant,
              int64_t numel) {
  AdamState state(uniform_values(numel, 1, 0.125f));
  for (int64_t step = 1; step <= 4; ++step) {
    const std::vector<float> grad =
        spread_values(numel, 100 + static_cast<uint64_t>(step), 1.0f);
    std::vector<uint16_t> grad_bf16(grad.size());
    convert_to_bf16(grad.data(), grad_bf16.data(), numel);
    UpdatePiece piece = state.piece(grad);
    if (variant.is_bf16) piece.grad = nullptr, piece.grad_bf16 = grad_bf16.data();
    if (!variant.has_copy) piece.copy_bf16 = nullptr;
    std::visit(
        [&]<class Rule>(const Rule& rule) {
          std::get<UpdateKernel<Rule>>(kernel.updates)(piece, rule);
        },
        make_rule({.kind = optimizer, .nesterov = true}, 1e-3, step, 0.3f));
  }
  return state;
}

TEST(KernelsTest, ThePlainOneIsAlwaysThere) {
  ASSERT_FALSE(kernels().empty());
  EXPECT_STREQ(kernels().front().isa, "baseline");
}

TEST(KernelsTest, EveryInstructionSetGivesTheSameBits) {
  const std::vector<Kernels> all = kernels();
  for (const Kernels& kernel : all) {
    for (const Optimizer optimizer :
         {Optimizer::kAdamW, Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad}) {
      for (const Variant variant :
           {Variant{false, false}, {false, true}, {true, false}, {true, true}}) {
        for (const int64_t numel : {1, 7, 15, 16, 17, 31, 63, 65, 1027}) {
          SCOPED_TRACE(std::string(kernel.isa) + ", " + name_of(optimizer) + ", numel " +
                       std::to_string(numel));
          const AdamState expected = run(all.front(), optimizer, variant, numel);
          const AdamState found = run(kernel, optimizer, variant, numel);
          EXPECT_EQ(bits_of(found.master), bits_of(expected.master));
          EXPECT_EQ(bits_of(found.exp_avg), bits_of(expected.exp_avg));
          EXPECT_EQ(bits_of(found.exp_avg_sq), bits_of(expected.exp_avg_sq));
          EXPECT_EQ(found.copy, expected.copy);
        }
      }
    }
  }
}

TEST(KernelsTest, EveryInstructionSetSumsTheSameSquares) {
  const std::vector<float> values = spread_values(64 * 9, 3, 1.0f);
  std::vector<double> expected(9);
  kernels().front().leaf_squares(values.data(), 9, expected.data());
  for (const Kernels& kernel : kernels()) {
    std::vector<double> sums(9);
    kernel.leaf_squares(values.data(), 9, sums.data());
    EXPECT_EQ(sums, expected) << kernel.isa;
  }
}

}  // namespace
}  // namespace zero
