#include "offload/kernels.h"

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "offload/convert.h"
#include "offload/stored_values.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"

namespace zero::kernels_test {
namespace {

// Each is a loop of its own.
struct Variant {
  bool grad_is_bf16 = false;
  enum Master { kPlain, kWithBf16, kWithFp16, kSplit } master = kPlain;
  bool states_are_bf16 = false;
};

std::vector<Variant> all_variants() {
  std::vector<Variant> all;
  for (const bool grad : {false, true}) {
    for (const auto master :
         {Variant::kPlain, Variant::kWithBf16, Variant::kWithFp16, Variant::kSplit}) {
      for (const bool states : {false, true}) all.push_back({grad, master, states});
    }
  }
  return all;
}

// The arrays of a state as the variant stores them, taken from it and put back into it.
class Stored {
 public:
  Stored(AdamState& state, const Variant& variant)
      : state_(state),
        variant_(variant),
        low_(state.master.size()),
        states_{low_, low_},
        numel_(std::ssize(state.master)) {
    masters().write(0, state.master);
    for (int i = 0; i < 2; ++i) states(i).write(0, plain(i));
  }
  ~Stored() {
    masters().read(0, state_.master);
    for (int i = 0; i < 2; ++i) states(i).read(0, plain(i));
  }

  UpdatePiece piece(const std::vector<float>& grad) {
    UpdatePiece piece = state_.piece(grad);
    if (variant_.master == Variant::kWithFp16) piece.copy_fp16 = piece.copy_bf16;
    if (variant_.master != Variant::kWithBf16 && !is_split()) piece.copy_bf16 = nullptr;
    if (is_split()) piece.master = nullptr, piece.master_low = low_.data();
    for (int i = 0; i < 2 && variant_.states_are_bf16; ++i)
      piece.state[i] = nullptr, piece.state_bf16[i] = states_[i].data();
    return piece;
  }

 private:
  bool is_split() const { return variant_.master == Variant::kSplit; }
  std::vector<float>& plain(int i) { return i == 0 ? state_.exp_avg : state_.exp_avg_sq; }
  StoredValues masters() {
    return is_split() ? StoredValues::in_halves(state_.copy.data(), low_.data(), numel_)
                      : StoredValues(state_.master.data(), numel_);
  }
  StoredValues states(int i) {
    return variant_.states_are_bf16 ? StoredValues::in_bf16(states_[i].data(), numel_)
                                    : StoredValues(plain(i).data(), numel_);
  }

  AdamState& state_;
  const Variant variant_;
  std::vector<uint16_t> low_, states_[2];
  const int64_t numel_;
};

void round_to_bf16(std::vector<float>& values) {
  for (float& value : values) value = bf16_to_float(float_to_bf16(value));
}

AdamState run(const Kernels& kernel, Optimizer optimizer, const Variant& variant,
              int64_t numel, bool rounds_states = false) {
  AdamState state(uniform_values(numel, 1, 0.125f));
  for (int64_t step = 1; step <= 4; ++step) {
    const std::vector<float> grad =
        spread_values(numel, 100 + static_cast<uint64_t>(step), 1.0f);
    std::vector<uint16_t> grad_bf16(grad.size());
    convert_to_bf16(grad.data(), grad_bf16.data(), numel);
    Stored stored(state, variant);
    UpdatePiece piece = stored.piece(grad);
    if (variant.grad_is_bf16) piece.grad = nullptr, piece.grad_bf16 = grad_bf16.data();
    kernel.update(piece,
                  make_rule({.kind = optimizer, .nesterov = true}, 1e-3, step, 0.3f));
    if (rounds_states) round_to_bf16(state.exp_avg), round_to_bf16(state.exp_avg_sq);
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
      for (const Variant& variant : all_variants()) {
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

TEST(KernelsTest, ASplitMasterLosesNothing) {
  for (const Optimizer optimizer :
       {Optimizer::kAdamW, Optimizer::kSgd, Optimizer::kLion, Optimizer::kAdagrad}) {
    SCOPED_TRACE(name_of(optimizer));
    const AdamState plain = run(fastest_kernels(), optimizer, {}, 1027);
    const AdamState split =
        run(fastest_kernels(), optimizer, {.master = Variant::kSplit}, 1027);
    EXPECT_EQ(bits_of(split.master), bits_of(plain.master));
    EXPECT_EQ(bits_of(split.exp_avg), bits_of(plain.exp_avg));
    for (size_t i = 0; i < split.copy.size(); ++i)
      EXPECT_EQ(split.copy[i], split_float(plain.master[i]).high);
  }
}

TEST(KernelsTest, CopiesAreTheMastersRounded) {
  for (const Kernels& kernel : kernels()) {
    SCOPED_TRACE(kernel.isa);
    const AdamState bf16 =
        run(kernel, Optimizer::kAdamW, {.master = Variant::kWithBf16}, 1027);
    const AdamState fp16 =
        run(kernel, Optimizer::kAdamW, {.master = Variant::kWithFp16}, 1027);
    EXPECT_EQ(bits_of(fp16.master), bits_of(bf16.master));
    for (size_t i = 0; i < fp16.copy.size(); ++i) {
      ASSERT_EQ(bf16.copy[i], float_to_bf16_reference(bf16.master[i])) << i;
      ASSERT_EQ(fp16.copy[i], float_to_fp16_reference(fp16.master[i])) << i;
    }
  }
}

// Of masters that are not of one size: subnormals, infinities and NaN among them.
TEST(KernelsTest, EveryInstructionSetRoundsAnyMasterAlike) {
  const int64_t numel = 1 << 16;
  std::vector<float> masters(numel);
  for (uint32_t i = 0; i < numel; ++i)
    masters[i] = std::bit_cast<float>(i << 16 | (i * 0x9e37u & 0xffffu));
  const std::vector<float> grad(numel);
  for (const Kernels& kernel : kernels()) {
    AdamState state(masters);
    UpdatePiece piece = state.piece(grad);
    std::swap(piece.copy_bf16, piece.copy_fp16);
    kernel.update(piece, make_rule({.kind = Optimizer::kSgd}, 0, 1, 1));
    for (int64_t i = 0; i < numel; ++i)
      ASSERT_EQ(state.copy[i], float_to_fp16_reference(masters[i]))
          << kernel.isa << ", " << masters[i];
  }
}

TEST(KernelsTest, StatesInBf16AreRoundedOnceAStep) {
  for (const Optimizer optimizer :
       {Optimizer::kAdamW, Optimizer::kSgd, Optimizer::kLion}) {
    SCOPED_TRACE(name_of(optimizer));
    const AdamState rounded =
        run(fastest_kernels(), optimizer, {}, 1027, /*rounds_states=*/true);
    const AdamState stored =
        run(fastest_kernels(), optimizer, {.states_are_bf16 = true}, 1027);
    EXPECT_EQ(bits_of(stored.master), bits_of(rounded.master));
    EXPECT_EQ(bits_of(stored.exp_avg), bits_of(rounded.exp_avg));
    EXPECT_EQ(bits_of(stored.exp_avg_sq), bits_of(rounded.exp_avg_sq));
  }
}

TEST(KernelsTest, EveryInstructionSetRoundsToTheSameFp16) {
  for (const Kernels& kernel : kernels()) {
    for (const int64_t n : {0, 1, 7, 8, 9, 33, 1001}) {
      const std::vector<float> values = spread_values(n + 1, 5, 8.0f);
      std::vector<uint16_t> fp16(values.size(), 0xbeef);
      kernel.to_fp16(values.data(), fp16.data(), n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(fp16[i], float_to_fp16_reference(values[i])) << kernel.isa;
      EXPECT_EQ(fp16[n], 0xbeef) << kernel.isa << " wrote past the end";
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
}  // namespace zero::kernels_test
