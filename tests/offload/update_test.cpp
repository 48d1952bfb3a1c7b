#include "offload/update.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "offload/host_arena.h"
#include "offload/thread_pool.h"
#include "tests/offload/adam_reference.h"
#include "tests/offload/test_data.h"

namespace zero::update_test {
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

TEST(UpdateTest, PiecesMayCopyIntoDifferentTypes) {
  ThreadPool two(2);
  Owner half(100000, 1), brain(100000, 1);
  std::vector<Update> updates;
  for (Owner* owner : {&half, &brain})
    updates.push_back(owner->with(make_rule({}, 1e-3, 1, 1)));
  std::swap(updates[0].piece.copy_bf16, updates[0].piece.copy_fp16);
  update(updates, two);
  for (size_t i = 0; i < half.state.copy.size(); ++i) {
    ASSERT_EQ(half.state.copy[i], float_to_fp16_reference(half.state.master[i]));
    ASSERT_EQ(brain.state.copy[i], float_to_bf16_reference(brain.state.master[i]));
  }
}

// The last element may have a gradient, and another block of its chunk a smaller one.
TEST(UpdateTest, TellsOfGradientsAndOfMastersThatMoveAndChangesNoBit) {
  constexpr int64_t kNumel = 70000;
  ThreadPool two(2);
  struct Case {
    double lr;
    float gradient;
    Movement expected;
    float small_gradient = 0;
    double weight_decay = 0;
  };
  for (const auto& [lr, gradient, expected, small_gradient, weight_decay] :
       {Case{1e-2, 0, {0, 0}}, Case{1e-12, 1, {1, 0}}, Case{1e-6, 1, {1, 1}},
        Case{1e-2, 1, {1, 1}}, Case{1e-6, 1, {1, 1}, 1e-6f},
        Case{1e-2, 0, {0, 1}, 0, 0.1}, Case{1e-2, 1, {1, 1}, 0, 0.1}}) {
    for (const bool is_split : {false, true}) {
      for (const bool is_draft : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << lr << " " << gradient << " " << is_split << " " << is_draft << " "
                     << small_gradient << " " << weight_decay);
        std::vector<float> grad(kNumel);
        grad[kUpdateChunkNumel] = small_gradient;
        grad.back() = gradient;
        const UpdateRule rule =
            make_rule({.kind = Optimizer::kSgd, .weight_decay = weight_decay}, lr, 1, 1);
        std::vector<float> master(kNumel, 0.75f), old = master, without = master;
        std::vector<uint16_t> low(kNumel), old_low(kNumel), high(kNumel, 0x3f40),
            old_high(kNumel);
        std::vector<float> state(kNumel), old_state(kNumel);
        Movement movement;
        UpdatePiece piece{.grad = grad.data(), .numel = kNumel};
        piece.state[0] = state.data();
        if (is_split) {
          piece.master_low = low.data(), piece.copy_bf16 = high.data();
          if (is_draft)
            piece.old.master_low = old_low.data(), piece.old_high = old_high.data();
        } else {
          piece.master = master.data();
          if (is_draft) piece.old.master = old.data();
        }
        if (is_draft) piece.old.state[0] = old_state.data();
        piece.movement = &movement;
        const Update seen{piece, rule};
        update({&seen, 1}, two);
        EXPECT_EQ(movement, expected);
        if (is_split) continue;
        const Update unseen{{.grad = grad.data(),
                             .master = without.data(),
                             .state = {old_state.data()},
                             .numel = kNumel},
                            rule};
        update({&unseen, 1}, two);
        EXPECT_EQ(bits_of(master), bits_of(without));
      }
    }
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
  refused([](UpdatePiece& piece) { piece.master = nullptr; });
  uint16_t halves[3] = {};
  refused([&](UpdatePiece& piece) { piece.master_low = halves; });
  refused([&](UpdatePiece& piece) {
    piece.master = nullptr, piece.master_low = halves, piece.copy_bf16 = nullptr;
  });
  refused([&](UpdatePiece& piece) { piece.copy_fp16 = halves; });
  refused([&](UpdatePiece& piece) { piece.state_bf16[1] = halves; });
  refused([&](UpdatePiece& piece) {
    piece.state[1] = nullptr, piece.state_bf16[1] = halves;
  });
  float old[3] = {};
  refused([&](UpdatePiece& piece) { piece.old.master = piece.old.state[0] = old; });
  refused([&](UpdatePiece& piece) {
    piece.old.master = old, piece.old.state[0] = piece.old.state[1] = old;
    piece.master = nullptr, piece.master_low = halves;
  });
  refused([&](UpdatePiece& piece) {
    piece.old.master_low = piece.old_high = halves;
    piece.old.state[0] = piece.old.state[1] = old;
  });
  const auto split = [&](UpdatePiece& piece) {
    piece.master = nullptr, piece.master_low = halves;
    piece.old.state[0] = piece.old.state[1] = old;
  };
  refused([&](UpdatePiece& piece) { split(piece), piece.old.master_low = halves; });
  refused([&](UpdatePiece& piece) { split(piece), piece.old_high = halves; });
}

// Whatever lay there before, and in blocks on both sides of a cached one.
TEST(UpdateTest, FromOldValuesItWritesTheBitsOfAnUpdateInPlace) {
  ThreadPool pool(2);
  for (const int64_t numel : {1, 1024, 1025, 200000}) {
    for (const Optimizer kind : kAll) {
      const UpdateRule rule = make_rule({.kind = kind}, 1e-2, 3, 0.5f);
      Owner old(numel, 1), in_place = old, aside(numel, 9);
      const Update changed = in_place.with(rule);
      update({&changed, 1}, pool);
      aside.grad = old.grad;
      Update written = aside.with(rule);
      written.piece.old.master = old.state.master.data();
      written.piece.old.state[0] = old.state.exp_avg.data();
      written.piece.old.state[1] = old.state.exp_avg_sq.data();
      const Owner before = old;
      update({&written, 1}, pool);
      expect_same(old, before);
      EXPECT_EQ(bits_of(aside.state.master), bits_of(in_place.state.master));
      EXPECT_EQ(bits_of(aside.state.exp_avg), bits_of(in_place.state.exp_avg));
      EXPECT_EQ(bits_of(aside.state.exp_avg_sq), bits_of(in_place.state.exp_avg_sq));
      EXPECT_EQ(aside.state.copy, in_place.state.copy);
    }
  }
}

// Their high halves have one place, and are left in another one.
TEST(UpdateTest, FromOldHalvesItWritesTheBitsOfAnUpdateInPlace) {
  ThreadPool pool(2);
  for (const int64_t numel : {1, 1024, 1025, 200000}) {
    const UpdateRule rule = make_rule({}, 1e-2, 3, 0.5f);
    const auto halve = [&](Owner& owner, uint16_t* low) {
      Update update = owner.with(rule);
      update.piece.master = nullptr, update.piece.master_low = low;
      return update;
    };
    Owner old(numel, 1);
    for (int64_t i = 0; i < numel; ++i)
      old.state.copy[i] = float_to_bf16_reference(old.state.master[i]);
    Owner in_place = old, aside = old;
    aside.state.exp_avg.assign(numel, 7), aside.state.exp_avg_sq.assign(numel, 7);
    std::vector<uint16_t> low(numel);
    for (int64_t i = 0; i < numel; ++i) low[i] = static_cast<uint16_t>(i * 40503);
    std::vector<uint16_t> changed_low = low, written_low(numel), old_high(numel);
    const Update changed = halve(in_place, changed_low.data());
    update({&changed, 1}, pool);
    Update written = halve(aside, written_low.data());
    written.piece.old.master_low = low.data();
    written.piece.old_high = old_high.data();
    written.piece.old.state[0] = old.state.exp_avg.data();
    written.piece.old.state[1] = old.state.exp_avg_sq.data();
    update({&written, 1}, pool);
    EXPECT_EQ(written_low, changed_low);
    EXPECT_EQ(old_high, old.state.copy);
    expect_same(aside, in_place);
  }
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

// Pages of the arena that nobody has touched.
int64_t num_missing_pages(const HostArena& arena) {
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  std::vector<unsigned char> is_there((arena.capacity_bytes() - 1) / page_bytes + 1);
  EXPECT_EQ(mincore(arena.data(), arena.capacity_bytes(), is_there.data()), 0);
  return std::ranges::count_if(is_there, [](unsigned char page) { return !(page & 1); });
}

// One piece may have a copy in bf16 or in fp16.
class TouchTest : public ::testing::TestWithParam<uint16_t * UpdatePiece::*> {};

TEST_P(TouchTest, TakesEveryPageAndChangesNothing) {
  constexpr int64_t kNumel = 300001;
  HostArena arena("arrays",
                  4 * HostArena::padded(kNumel * 4) + HostArena::padded(kNumel * 2));
  Update one{{.numel = kNumel}, make_rule({}, 1e-3, 1, 1)};
  one.piece.grad = arena.allocate_array<float>("grad", kNumel);
  one.piece.master = arena.allocate_array<float>("master", kNumel);
  for (float*& state : one.piece.state)
    state = arena.allocate_array<float>("state", kNumel);
  one.piece.*GetParam() = arena.allocate_array<uint16_t>("copy", kNumel);
  one.piece.master[100000] = 7;
  EXPECT_GT(num_missing_pages(arena), 0);
  for (const int num_threads : {2, 1}) {
    ThreadPool pool(num_threads);
    touch({&one, 1}, pool);
    EXPECT_EQ(num_missing_pages(arena), 0);
    EXPECT_EQ(one.piece.master[100000], 7);
    EXPECT_EQ(std::count(one.piece.master, one.piece.master + kNumel, 0), kNumel - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Copies, TouchTest,
                         ::testing::Values(&UpdatePiece::copy_bf16,
                                           &UpdatePiece::copy_fp16));

}  // namespace
}  // namespace zero::update_test
