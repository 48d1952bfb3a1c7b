// One call of a unit: in which type it computes, how often its body runs, which backward
// belongs to it, and what becomes of it when a rank or the engine goes away.
#include "engine/unit/unit_call.h"

#include <mutex>

#include "engine/device/host_device.h"
#include "tests/engine/unit_contract.h"

namespace zero::testing::unit_call_test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
namespace nn = torch::nn;

class UnitCallTest : public UnitContract {};

INSTANTIATE_TEST_SUITE_P(, UnitCallTest,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

struct ScaleImpl : nn::Module {
  ScaleImpl() { w = register_parameter("w", values({3}, 0.5, 2)); }
  at::Tensor w;
};

// ---- types

struct SeesTypesImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& exact,
                     const at::Tensor& row) {
    seen = {x.scalar_type(), exact.scalar_type(), row.scalar_type(), w.scalar_type()};
    return torch::matmul(x, w.view({3, 1})) + exact.sum() + row.sum();
  }
  std::vector<at::ScalarType> seen;
};
struct FloatsInsideImpl : nn::Module {
  FloatsInsideImpl() { unit = register_module("unit", Unit<SeesTypesImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) {
    root_saw = x.scalar_type();
    // Float again, as norms and position tables are.
    return unit(x.to(at::kFloat), x.to(at::kDouble), torch::arange(3)).sum();
  }
  Unit<SeesTypesImpl> unit{nullptr};
  at::ScalarType root_saw = at::kFloat;
};

TEST_P(UnitCallTest, FloatTensorsBecomeWhatTheUnitComputesIn) {
  const std::vector<at::ScalarType> expected{at::kBFloat16, at::kDouble, at::kLong,
                                             at::kBFloat16};
  options.dtype = DType::kBf16;
  for (const int64_t min_numel : {0, 100}) {  // by itself, or merged into the root
    options.auto_wrap.min_numel = min_numel;
    each_rank([] { return std::make_shared<FloatsInsideImpl>(); },
              [&](Engine& engine, auto& model) {
                const at::Tensor x = values({4, 3}).requires_grad_();
                engine.backward(engine.forward(model, x), 1);
                EXPECT_EQ(model->root_saw, at::kBFloat16);
                EXPECT_EQ(model->unit->seen, expected);
                EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
                const torch::NoGradGuard no_grad;
                engine.forward(model, x);
                EXPECT_EQ(model->unit->seen, expected);
              });
  }
}

struct WritesCacheImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& cache) {
    cache.select(0, 0).copy_(x[0]);
    return x * w + cache.sum(0);
  }
};

struct HandsOnCacheImpl : nn::Module {
  HandsOnCacheImpl() { unit = register_module("unit", Unit<WritesCacheImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) { return unit(x, cache); }
  at::Tensor cache = torch::zeros({8, 3});
  Unit<WritesCacheImpl> unit{nullptr};
};

TEST_P(UnitCallTest, WhatItsCallerWouldNotSeeIsNotWritten) {
  options.dtype = DType::kBf16;
  for (const int64_t min_numel : {0, 100}) {  // by itself, or merged into the root
    options.auto_wrap.min_numel = min_numel;
    each_rank([] { return std::make_shared<HandsOnCacheImpl>(); },
              [&](Engine& engine, auto& model) {
                const torch::NoGradGuard no_grad;
                EXPECT_THAT(error_of([&] {
                              engine.forward(model, values({4, 3}));
                            }),
                            HasSubstr("was given a copy in another type"));
                model->cache = model->cache.to(at::kBFloat16);
                engine.forward(model, values({4, 3}));
                EXPECT_NE(model->cache.abs().sum().template item<float>(), 0);
              });
  }
}

class Autocast {
 public:
  explicit Autocast(bool is_on) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, is_on);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
};

struct MatmulImpl : nn::Module {
  MatmulImpl() { w = register_parameter("w", values({3, 3}, -0.7, 0.9)); }
  at::Tensor forward(const at::Tensor& x) { return torch::matmul(x, w).sin(); }
  at::Tensor w;
};

// The result and the gradient of w of `model`, forward and backward each with autocast or
// without.
template <class Forward, class Backward>
at::Tensor run_with(bool forward_casts, bool backward_casts, Forward forward,
                    Backward backward) {
  at::Tensor y;
  {
    const Autocast autocast(forward_casts);
    y = forward(values({4, 3}));
  }
  EXPECT_EQ(y.scalar_type(), forward_casts ? at::kBFloat16 : at::kFloat);
  const at::Tensor loss = y.to(at::kFloat).pow(2).sum();
  const Autocast autocast(backward_casts);
  backward(loss);
  return y;
}

TEST_P(UnitCallTest, AutocastIsThatOfTheForward) {
  for (const auto& [forward_casts, backward_casts] :
       std::vector<std::pair<bool, bool>>{{true, false}, {false, true}, {true, true}}) {
    auto plain = std::make_shared<HolderImpl<MatmulImpl>>();
    const at::Tensor expected = run_with(
        forward_casts, backward_casts,
        [&](const at::Tensor& x) { return plain->forward(x); },
        [](const at::Tensor& loss) { loss.backward(); });
    each_rank([] { return std::make_shared<HolderImpl<MatmulImpl>>(); },
              [&](Engine& engine, auto& model) {
                for (int step = 0; step < 2; ++step) {
                  const at::Tensor y = run_with(
                      forward_casts, backward_casts,
                      [&](const at::Tensor& x) { return engine.forward(model, x); },
                      [&](const at::Tensor& loss) { engine.backward(loss, 1); });
                  EXPECT_TRUE(torch::equal(y, expected));
                  expect_near(engine.full_gradient("unit.w"), plain->unit->w.grad());
                  engine.discard_gradients();
                }
              });
  }
}

TEST_P(UnitCallTest, AutocastKeepsNoWeightsFromOneCallToTheNext) {
  each_rank(
      [] { return std::make_shared<HolderImpl<MatmulImpl>>(); },
      [&](Engine& engine, auto& model) {
        const Autocast autocast(true);
        for (int step = 0; step < 3; ++step) {
          engine.set_full_parameter("unit.w", values({3, 3}, step, 2 * step));
          const at::Tensor y = engine.forward(model, values({4, 3}));
          const at::Tensor w = values({3, 3}, step, 2 * step).to(at::kBFloat16);
          const at::Tensor x = values({4, 3}).to(at::kBFloat16);
          EXPECT_TRUE(torch::equal(y, torch::matmul(x, w).sin())) << step;
          engine.backward(y.to(at::kFloat).sum(), 1);
          EXPECT_NE(engine.full_gradient("unit.w").abs().sum().template item<float>(), 0)
              << step;
          engine.discard_gradients();
        }
      });
}

// ---- runs

struct CountsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    ++runs;
    return x * w;
  }
  int runs = 0;
};

TEST_P(UnitCallTest, RecomputingRunsTheBodyOnceMore) {
  each_rank([] { return std::make_shared<HolderImpl<CountsImpl>>(); },
            [&](Engine& engine, auto& model) {
              for (int step = 1; step <= 2; ++step) {
                engine.backward(engine.forward(model, values({4, 3})).sum(), 1);
                EXPECT_EQ(model->unit->runs, step * (recomputes() ? 2 : 1));
              }
            });
}

struct TwiceImpl : nn::Module {
  TwiceImpl() {
    w = register_parameter("w", values({3}, -1, 2));
    unit = register_module("unit", Unit<CountsImpl>::make());
  }
  at::Tensor forward(const at::Tensor& x) {
    return unit(unit(x * w).sin() + w).pow(2).sum();
  }
  at::Tensor w;
  Unit<CountsImpl> unit{nullptr};
};

TEST_P(UnitCallTest, GradientsOfAllCallsAddUp) {
  for (const bool streams : {false, true}) {
    options.stream_always = streams;
    expect_plain_numbers([] { return std::make_shared<TwiceImpl>(); },
                         [](auto forward, const at::Tensor& x) { return forward(x); });
  }
}

// Each gradient is the same memory as the input's, and as the other parameter's.
struct AddsBothImpl : nn::Module {
  AddsBothImpl() {
    a = register_parameter("a", values({3, 4}, -1, 2));
    b = register_parameter("b", values({3, 4}, 2, -1));
  }
  at::Tensor forward(const at::Tensor& x) { return x + (a.t() + b.t()); }
  at::Tensor a, b;
};
struct AddsTwiceImpl : nn::Module {
  AddsTwiceImpl() { unit = register_module("unit", Unit<AddsBothImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) { return unit(unit(x.sin())).pow(2).sum(); }
  Unit<AddsBothImpl> unit{nullptr};
};

TEST_P(UnitCallTest, GradientsThatShareMemoryAddUpApart) {
  expect_plain_numbers([] { return std::make_shared<AddsTwiceImpl>(); },
                       [](auto forward, const at::Tensor& x) { return forward(x); });
}

// As an unrolled loop does: its weights stay until the outermost call is over.
struct RecursiveImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x, int depth) {
    return depth == 0 ? x : (*self)((x * w).sin(), depth - 1) + w;
  }
  Unit<RecursiveImpl>* self = nullptr;
};
struct RecursiveModelImpl : nn::Module {
  RecursiveModelImpl() {
    unit = register_module("unit", Unit<RecursiveImpl>::make());
    unit->self = &unit;
  }
  at::Tensor forward(const at::Tensor& x) { return unit(x, 3).pow(2).sum(); }
  Unit<RecursiveImpl> unit{nullptr};
};

TEST_P(UnitCallTest, AUnitMayCallItself) {
  options.stream_always = true;
  expect_plain_numbers([] { return std::make_shared<RecursiveModelImpl>(); },
                       [](auto forward, const at::Tensor& x) { return forward(x); });
}

TEST_P(UnitCallTest, TheRootStaysUntilTheLastBackward) {
  each_rank([] { return std::make_shared<TwiceImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor one = engine.forward(model, values({4, 3}));
              const at::Tensor two = engine.forward(model, values({4, 3}));
              engine.backward(one, 1);
              EXPECT_TRUE(torch::equal(model->w, values({3}, -1, 2)));
              engine.backward(two, 1);
              EXPECT_ANY_THROW(model->w.sum());
            });
}

TEST_P(UnitCallTest, TheRootIsGatheredOnceForForwardsThatFollowEachOther) {
  options.stream_always = true;
  each_rank([] { return std::make_shared<TwiceImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor one = engine.forward(model, values({4, 3}));
              const at::Tensor two = engine.forward(model, values({4, 3}));
              engine.backward(one, 1);
              engine.backward(two, 1);
              EXPECT_EQ(engine.num_gathers(), 2) << "the root and the unit";
              engine.step();
              engine.backward(engine.forward(model, values({4, 3})), 1);
              EXPECT_EQ(engine.num_gathers(), 4) << "both are new";
            });
}

// ---- which backward belongs to a forward

struct KeepsImpl : nn::Module {
  KeepsImpl() { unit = register_module("unit", Unit<CountsImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) {
    kept = unit(x);
    return x.sum();
  }
  Unit<CountsImpl> unit{nullptr};
  at::Tensor kept;  // not among the results
};

TEST_P(UnitCallTest, AGraphThatForwardDidNotReturnIsKnownByItsUnits) {
  each_rank([] { return std::make_shared<KeepsImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.forward(model, values({4, 3}));
              const at::Tensor old = model->kept.sum();
              engine.forward(model, values({4, 3}));
              engine.backward(model->kept.sum(), 1);
              expect_near(engine.full_gradient("unit.w"), values({4, 3}).sum(0));
              engine.step();
              EXPECT_THAT(
                  error_of([&] { engine.backward(old, 1); }),
                  AllOf(HasSubstr("the weights changed between"), HasSubstr("unit")));
            });
}

TEST_P(UnitCallTest, AGraphWithoutUnitsIsKnownByItsForward) {
  struct RootImpl : ScaleImpl {
    at::Tensor forward(const at::Tensor& x) { return (x * w).sum(); }
  };
  each_rank([] { return std::make_shared<RootImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor old = engine.forward(model, values({4, 3}));
              engine.backward(engine.forward(model, values({4, 3})), 1);
              engine.step();
              EXPECT_THAT(error_of([&] { engine.backward(old, 1); }),
                          HasSubstr("the weights changed between"));
            });
}

TEST_P(UnitCallTest, OneBackwardPerForward) {
  each_rank([] { return std::make_shared<HolderImpl<CountsImpl>>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
              engine.backward(loss, 1);
              EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                          HasSubstr("second backward through the same call"));
              EXPECT_FALSE(engine.step().skipped);
            });
}

// ---- what goes away

struct ThrowsImpl : CountsImpl {
  at::Tensor forward(const at::Tensor& x) {
    if (throws) throw std::runtime_error("from the body");
    return CountsImpl::forward(x);
  }
  bool throws = false;
};
struct FragileImpl : nn::Module {
  FragileImpl() {
    for (int i = 0; i < 4; ++i) units->push_back(Unit<ThrowsImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(at::Tensor x) {
    for (auto& unit : *units) x = unit.value()(x);
    return x.pow(2).sum();
  }
  UnitList<ThrowsImpl> units{std::make_shared<UnitListImpl<ThrowsImpl>>()};
};

// Rank 1 leaves with its exception; rank 0 is told at its next exchange.
TEST_P(UnitCallTest, WhenARankThrowsTheOthersGetAnErrorToo) {
  if (ranks() == 1) GTEST_SKIP() << "there are no others";
  for (const bool in_backward : {false, true}) {
    if (in_backward && !recomputes()) continue;
    std::array<std::string, 2> errors;
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      try {
        auto model = std::make_shared<FragileImpl>();
        Engine engine(model, options, std::move(comm));
        engine.backward(engine.forward(model, values({4, 3})), 1);
        engine.step();
        (*model->units)["1"]->throws = rank == 1 && !in_backward;
        const at::Tensor loss = engine.forward(model, values({4, 3}));
        (*model->units)["1"]->throws = rank == 1 && in_backward;
        engine.backward(loss, 1);
        engine.step();
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
    EXPECT_EQ(errors[1], "from the body");
    EXPECT_THAT(errors[0], HasSubstr("rank 1"));
  }
}

TEST_P(UnitCallTest, WhatOutlivesItsEngineIsToldSo) {
  std::shared_ptr<HolderImpl<CountsImpl>> model;
  at::Tensor loss;
  on_ranks(1, [&](std::unique_ptr<Ranks> comm) {
    model = std::make_shared<HolderImpl<CountsImpl>>();
    Engine engine(model, options, std::move(comm));
    loss = engine.forward(model, values({4, 3})).sum();
  });
  EXPECT_THAT(error_of([&] { loss.backward(); }),
              AllOf(HasSubstr("the engine of this unit is gone"), HasSubstr("unit")));
}

TEST_P(UnitCallTest, AnEngineMayGoWhileItsCollectivesAreUnderWay) {
  set_delays({{"comm.all_gather", 20}, {"comm.reduce_scatter", 20}});
  options.prefetch = 3;
  for (int round = 0; round < 3; ++round) {
    each_rank([] { return std::make_shared<FragileImpl>(); },
              [&](Engine& engine, auto& model) {
                // Four units are being gathered when the first calls end, or reduced.
                const at::Tensor loss = engine.forward(model, values({4, 3}));
                if (round == 1) engine.backward(loss, 1);
                if (round == 2) engine.discard_gradients();
              });
  }
  set_delays({});
}

}  // namespace
}  // namespace zero::testing::unit_call_test
