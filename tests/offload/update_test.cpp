#include "offload/update.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "offload/thread_pool.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"

namespace zero {
namespace {

constexpr Optimizer kAll[] = {Optimizer::kAdamW, Optimizer::kSgd, Optimizer::kLion,
                              Optimizer::kAdagrad};

// A piece of any length, with room for any state.
struct Owner {
  explicit Owner(int64_t numel, uint64_t seed)
      : grad(spread_values(numel, seed, 1)), state(uniform_values(numel, seed + 1, 1)) {}

  Update with(const UpdateRule& rule) {
    UpdatePiece piece = state.piece(grad);
    return {piece, rule};
  }
  std::vector<float> grad;
  AdamState state;
};

void expect_same(const Owner& a, const Owner& b) {
  EXPECT_EQ(bits_of(a.state.master), bits_of(b.state.master));
  EXPECT_EQ(bits_of(a.state.exp_avg), bits_of(b.state.exp_avg));
  EXPECT_EQ(bits_of(a.state.exp_avg_sq), bits_of(b.state.exp_avg_sq));
  EXPECT_EQ(a.state.copy, b.state.copy);
}

// Lengths on both sides of the chunks that threads get, and empty pieces between them.
TEST(UpdateTest, ManyPiecesAreAsManyCalls) {
  const std::vector<int64_t> numels = {0, 1, 65535, 0, 0, 65536, 65537, 7, 200000, 0};
  std::vector<Owner> together, alone;
  for (size_t i = 0; i < numels.size(); ++i) {
    together.emplace_back(numels[i], 10 * i);
    alone.emplace_back(numels[i], 10 * i);
  }
  const auto rule_of = [](size_t i) {
    return make_rule({.kind = kAll[i % 4]}, 1e-3 * static_cast<double>(i + 1), 3, 0.5f);
  };
  ThreadPool two(2), one(1);
  std::vector<Update> updates;
  for (size_t i = 0; i < numels.size(); ++i)
    updates.push_back(together[i].with(rule_of(i)));
  update(updates, two);
  for (size_t i = 0; i < numels.size(); ++i) {
    const Update single = alone[i].with(rule_of(i));
    update({&single, 1}, one);
    SCOPED_TRACE(i);
    expect_same(together[i], alone[i]);
  }
}

TEST(UpdateTest, NothingToDoIsNoError) {
  ThreadPool pool(2);
  update({}, pool);
  const Update empty{{}, make_rule({}, 1e-3, 1, 1)};
  update({&empty, 1}, pool);
}

TEST(UpdateTest, AWrongPieceIsRefusedBeforeAnyChanges) {
  ThreadPool pool(1);
  Owner good(3, 1), bad(3, 2);
  const Owner before = good;
  const UpdateRule rule = make_rule({}, 1e-3, 1, 1);
  const auto refused = [&](auto spoil) {
    std::vector<Update> updates{good.with(rule), bad.with(rule)};
    spoil(updates.back().piece);
    EXPECT_THROW(update(updates, pool), std::invalid_argument);
    expect_same(good, before);
  };
  const uint16_t grad_bf16[3] = {};
  refused([&](UpdatePiece& piece) { piece.grad_bf16 = grad_bf16; });
  refused([](UpdatePiece& piece) { piece.grad = nullptr; });
  refused([](UpdatePiece& piece) { piece.numel = -1; });
  refused([](UpdatePiece& piece) { piece.state[0] = nullptr; });
  refused([](UpdatePiece& piece) { piece.state[1] = nullptr; });
}

// A rule reads no state beyond its own.
TEST(UpdateTest, StatesOfOthersMayBeAbsent) {
  ThreadPool pool(1);
  Owner owner(3, 1);
  Update one = owner.with(make_rule({.kind = Optimizer::kSgd}, 1e-3, 1, 1));
  one.piece.state[1] = nullptr;
  update({&one, 1}, pool);
  EXPECT_NE(owner.state.master, uniform_values(3, 2, 1));
}

}  // namespace
}  // namespace zero
