// What docs/units.md says a unit may do: each gives the numbers of the plain module, or
// an error by name before anything has changed.
#include "tests/engine/unit_contract.h"

#include <array>

namespace zero::testing {
namespace {

using ::testing::HasSubstr;
namespace nn = torch::nn;

INSTANTIATE_TEST_SUITE_P(, UnitContract,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

// ---- values in and out

struct Inner {
  at::Tensor a;
  std::optional<at::Tensor> b;
  void visit_tensors(auto&& visit) { visit(a), visit(b); }
};
struct Shown {
  Inner inner;
  std::map<std::string, at::Tensor> named;
  int count = 0;
  void visit_tensors(auto&& visit) { visit(inner), visit(named); }
};
using Nested = std::tuple<at::Tensor, std::optional<std::vector<at::Tensor>>,
                          std::pair<at::Tensor, std::array<at::Tensor, 2>>>;

struct ScaleImpl : nn::Module {
  ScaleImpl() { w = register_parameter("w", values({3}, 0.5, 2)); }
  at::Tensor w;
};

struct ShowsImpl : ScaleImpl {
  Shown forward(Shown in, const std::vector<std::pair<at::Tensor, double>>& pairs) {
    Shown out;
    out.inner.a = in.inner.a * w * pairs.at(0).first * pairs.at(0).second;
    if (in.inner.b) out.inner.b = *in.inner.b * w;
    for (const auto& [name, tensor] : in.named) out.named[name] = tensor + w;
    out.count = in.count + 1;
    return out;
  }
};

TEST_P(UnitContract, StructsThatShowTheirTensorsGoInAndOut) {
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<ShowsImpl>>(); },
      [](auto forward, const at::Tensor& x) {
        Shown in{{x, x * 2}, {{"k", x.sin()}}, 4};
        const std::vector<std::pair<at::Tensor, double>> pairs{{x + 1, 0.5}};
        const Shown out = forward(in, pairs);
        EXPECT_EQ(out.count, 5);
        return out.inner.a.sum() + out.inner.b->pow(2).sum() +
               out.named.at("k").pow(2).sum();
      });
}

struct NestsImpl : ScaleImpl {
  Nested forward(const at::Tensor& x,
                 std::optional<std::tuple<at::Tensor, at::Tensor>> state,
                 std::array<at::Tensor, 2> two, const std::vector<bool>& flags,
                 const std::string& mode) {
    at::Tensor y = x * w;
    if (state) y = y + std::get<0>(*state) * std::get<1>(*state);
    if (mode == "negate" && flags.at(1)) y = -y;
    return {y, std::vector<at::Tensor>{y.pow(2), two[1] * w}, {y.sin(), {two[0], w * 2}}};
  }
};

TEST_P(UnitContract, AnyNestingOfContainersGoesInAndOut) {
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<NestsImpl>>(); },
      [](auto forward, const at::Tensor& x) {
        const auto state = std::optional(std::tuple(x.cos(), x * 0.5));
        const std::array<at::Tensor, 2> two{x * 3, x + 2};
        auto [y, more, pair] =
            forward(x, state, two, std::vector<bool>{false, true}, std::string("negate"));
        return y.sum() + more->at(0).sum() + more->at(1).pow(2).sum() +
               (pair.first * pair.second[0]).sum() + pair.second[1].pow(3).sum();
      });
}

// ---- what lies in gathered memory

struct ViewsImpl : ScaleImpl {
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {x * w, w, w.expand({4, 3})};
  }
};

TEST_P(UnitContract, ParametersAndViewsOfThemMayBeReturned) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<ViewsImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         auto [y, w, rows] = forward(x);
                         return (y * rows).pow(2).sum() + w.sin().sum();
                       });
}

TEST_P(UnitContract, RootMayReturnItsParameter) {
  struct RootImpl : nn::Module {
    RootImpl() { w = register_parameter("w", values({4, 3})); }
    std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
      return {x * w, w.view({12})};
    }
    at::Tensor w;
  };
  at::Tensor kept;
  expect_plain_numbers([] { return std::make_shared<RootImpl>(); },
                       [&](auto forward, const at::Tensor& x) {
                         auto [y, w] = forward(x);
                         return y.pow(2).sum() + w.pow(3).sum();
                       });
  each_rank([] { return std::make_shared<RootImpl>(); },
            [&](Engine& engine, auto& model) {
              const torch::NoGradGuard no_grad;
              const auto result = engine.forward(model, values({4, 3}));
              expect_near(result.second, values({12}));
            });
}

// ---- in place, detached, constant

struct InPlaceImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    x.add_(w);  // the caller's tensor changes, too
    return x * w;
  }
};

struct AddsInPlaceImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    x.mul_(w);
    return x;
  }
};

TEST_P(UnitContract, AnInputChangedInPlaceMayBeTheResult) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<AddsInPlaceImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor h = x.sin();
                         const at::Tensor y = forward(h);
                         return (y + h.pow(2)).sum();
                       });
}

TEST_P(UnitContract, InputsMayBeChangedInPlace) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<InPlaceImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor h = x * 2;
                         const at::Tensor y = forward(h);
                         return (y.sin() + h.pow(2)).sum();
                       });
}

struct AffineImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return x * w + 1; }
};

struct ReluImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) { return (x * w).relu_(); }
};

TEST_P(UnitContract, ResultsMayBeChangedInPlace) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<AffineImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         at::Tensor y = forward(x);
                         y.mul_(3).add_(x);
                         return y.pow(2).sum();
                       });
}

struct PassesImpl : ScaleImpl {
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x,
                                                         const at::Tensor& mask) {
    return {x, x.view({12}), mask};
  }
};

TEST_P(UnitContract, InputsMayBeReturned) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<PassesImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor h = x.sin();
                         auto [same, flat, mask] = forward(h, torch::ones({4, 3}));
                         EXPECT_FALSE(mask.requires_grad());
                         return (same * mask).sum() + flat.pow(2).sum();
                       });
}

struct DetachesImpl : ScaleImpl {
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor y = x * w;
    return {y, y.detach(), y.argmax(-1)};
  }
};

TEST_P(UnitContract, WhatIsDetachedInsideNeedsNoGradientOutside) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<DetachesImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         auto [y, detached, index] = forward(x);
                         EXPECT_TRUE(y.requires_grad());
                         EXPECT_FALSE(detached.requires_grad());
                         EXPECT_FALSE(index.requires_grad());
                         return (y * detached).sum();
                       });
}

TEST_P(UnitContract, AChangeOfAnInputAfterTheCallIsNamedBeforeAnythingHappens) {
  if (!recomputes()) GTEST_SKIP() << "torch's own versions tell";
  each_rank([] { return std::make_shared<HolderImpl<ReluImpl>>(); },
            [&](Engine& engine, auto& model) {
              engine.forward(model, values({4, 3}));
              const at::Tensor h = values({4, 3}).requires_grad_() * 2;
              const at::Tensor loss = engine.forward(model, h).sum();
              h.add_(1);
              EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                          HasSubstr("changed in place"));
              engine.backward(engine.forward(model, values({4, 3})).sum(), 1);
              EXPECT_FALSE(engine.step().skipped);
            });
}

// ---- gradients that others ask for

struct MlpImpl : nn::Module {
  MlpImpl() {
    embed = register_parameter("embed", values({3, 3}));
    for (int i = 0; i < 2; ++i) units->push_back(Unit<ReluImpl>::make());
    register_module("units", units);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = torch::matmul(x, embed);
    for (auto& unit : *units) y = unit.value()(y) + 0.1 * y;
    return y.pow(2).sum();
  }
  at::Tensor embed;
  UnitList<ReluImpl> units{std::make_shared<UnitListImpl<ReluImpl>>()};
};

TEST_P(UnitContract, SaliencyMapsLeaveNothingBehind) {
  auto plain = std::make_shared<MlpImpl>();
  const at::Tensor plain_x = values({4, 3}).requires_grad_();
  plain->forward(plain_x).backward();
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor x = values({4, 3}).requires_grad_();
              const at::Tensor loss = engine.forward(model, x);
              const auto map =
                  torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true);
              expect_near(map[0], plain_x.grad());
              engine.forward(model, x).backward();  // not the engine's: leaves parameters
                                                    // alone
              engine.backward(loss, 1);
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
            });
}

TEST_P(UnitContract, SecondDerivativesAreRefused) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor x = values({4, 3}).requires_grad_();
              const at::Tensor energy = engine.forward(model, x);
              EXPECT_THAT(error_of([&] {
                            torch::autograd::grad({energy}, {x}, {}, true,
                                                  /*create_graph=*/true);
                          }),
                          HasSubstr("create_graph"));
            });
}

TEST_P(UnitContract, GanTrainsTwoEnginesThroughOneGraph) {
  // Reference: two plain modules, gradients of each step for its own parameters only.
  auto plain_g = std::make_shared<HolderImpl<ReluImpl>>();
  auto plain_d = std::make_shared<MlpImpl>();
  plain_d->forward(plain_g->forward(values({4, 3}))).backward();
  const at::Tensor g_grad = plain_g->unit->w.grad().clone();
  plain_d->zero_grad();
  (plain_d->forward(plain_g->forward(values({4, 3})).detach()) -
   plain_d->forward(values({4, 3}, 0, 1)))
      .backward();
  on_ranks(ranks(), [&](std::unique_ptr<Communicator> comm) {
    auto g = std::make_shared<HolderImpl<ReluImpl>>();
    auto d = std::make_shared<MlpImpl>();
    auto comm_d = comm->duplicate();
    Engine g_engine(g, options, std::move(comm)), d_engine(d, options, std::move(comm_d));
    const at::Tensor fooled = d_engine.forward(d, g_engine.forward(g, values({4, 3})));
    g_engine.backward(fooled, 1);
    expect_near(g_engine.full_gradient("unit.w"), g_grad);

    at::Tensor fake;
    {
      const torch::NoGradGuard no_grad;
      fake = g_engine.forward(g, values({4, 3}));
    }
    d_engine.backward(
        d_engine.forward(d, fake) - d_engine.forward(d, values({4, 3}, 0, 1)), 1);
    for (const auto& item : plain_d->named_parameters())
      expect_near(d_engine.full_gradient(item.key()), item.value().grad());
    EXPECT_FALSE(g_engine.step().skipped);
    EXPECT_FALSE(d_engine.step().skipped);
  });
}

// ---- forwards, backwards, steps

TEST_P(UnitContract, TwoForwardsThenTwoBackwardsWithARootThatHasParameters) {
  auto plain = std::make_shared<MlpImpl>();
  (plain->forward(values({4, 3})) + plain->forward(values({4, 3}, 0, 2))).backward();
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor one = engine.forward(model, values({4, 3}));
              const at::Tensor two = engine.forward(model, values({4, 3}, 0, 2));
              engine.backward(one, 1);
              engine.backward(two, 0);
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
            });
}

// Two results that share nothing but the root.
struct TowersImpl : nn::Module {
  TowersImpl() {
    a = register_parameter("a", values({3}));
    b = register_parameter("b", values({3}, 1, 2));
    unit = register_module("unit", Unit<AffineImpl>::make());
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {(x * a).pow(2).sum(), unit(x * b).pow(2).sum()};
  }
  at::Tensor a, b;
  Unit<AffineImpl> unit{nullptr};
};

TEST_P(UnitContract, EachResultMayHaveItsOwnBackward) {
  auto plain = std::make_shared<TowersImpl>();
  auto [plain_one, plain_two] = plain->forward(values({4, 3}));
  (plain_one + plain_two).backward();
  each_rank([] { return std::make_shared<TowersImpl>(); },
            [&](Engine& engine, auto& model) {
              const auto [one, two] = engine.forward(model, values({4, 3}));
              engine.backward(one, 1);
              engine.backward(two, 0);
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
            });
}

TEST_P(UnitContract, ASecondBackwardOfTheSameResultIsRefusedBeforeAnythingChanges) {
  const auto refuse_second = [&](auto make, auto loss_of) {
    each_rank(make, [&](Engine& engine, auto& model) {
      const at::Tensor loss = loss_of(engine.forward(model, values({4, 3})));
      engine.backward(loss, 1);
      EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                  HasSubstr("a second backward through the same"));
      EXPECT_EQ(engine.step().num_targets, ranks());
    });
  };
  refuse_second([] { return std::make_shared<AffineImpl>(); },
                [](const at::Tensor& y) { return y.sum(); });
  refuse_second([] { return std::make_shared<MlpImpl>(); },
                [](const at::Tensor& y) { return y * 2; });
  refuse_second([] { return std::make_shared<TowersImpl>(); },
                [](const auto& losses) { return losses.first; });
}

TEST_P(UnitContract, AGraphOfAnOlderStepIsRefusedBeforeAnythingChanges) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor old = engine.forward(model, values({4, 3}));
              engine.backward(engine.forward(model, values({4, 3})), 1);
              engine.step();
              EXPECT_THAT(
                  error_of([&] { engine.backward(old, 1); }),
                  HasSubstr("weights changed between this forward and its backward"));
              engine.backward(engine.forward(model, values({4, 3})), 1);
              EXPECT_FALSE(engine.step().skipped);
            });
}

TEST_P(UnitContract, AForwardWithoutBackwardIsNoConcernOfLaterSteps) {
  const auto norms = [&](bool drops) {
    std::vector<double> result;
    on_ranks(ranks(), [&](std::unique_ptr<Communicator> comm) {
      const bool is_first = comm->rank() == 0;
      auto model = std::make_shared<MlpImpl>();
      Engine engine(model, options, std::move(comm));
      at::Tensor dropped;
      for (int step = 0; step < 3; ++step) {
        const at::Tensor before =
            drops ? engine.forward(model, values({4, 3})) : at::Tensor();
        const at::Tensor loss = engine.forward(model, values({4, 3}));
        dropped = before;  // frees the one of the step before
        engine.backward(loss, 1);
        const StepReport report = engine.step();
        if (is_first) result.push_back(report.grad_norm);
      }
    });
    return result;
  };
  EXPECT_EQ(norms(true), norms(false));
}

TEST_P(UnitContract, CallsOutsideForwardAreRefusedWithGradients) {
  each_rank([] { return std::make_shared<HolderImpl<ReluImpl>>(); },
            [&](Engine& engine, auto& model) {
              EXPECT_THAT(error_of([&] {
                            model->forward(values({4, 3}));
                          }),
                          HasSubstr("outside of forward"));
              const torch::NoGradGuard no_grad;
              expect_near(model->forward(values({4, 3})),
                          engine.forward(model, values({4, 3})));
            });
}

TEST_P(UnitContract, ForwardInsideForwardIsRefusedAndForgotten) {
  struct RecursiveImpl : nn::Module {
    at::Tensor forward(const at::Tensor& x) { return inside ? inside(x) : x; }
    std::function<at::Tensor(const at::Tensor&)> inside;
  };
  each_rank([] { return std::make_shared<RecursiveImpl>(); },
            [&](Engine& engine, auto& model) {
              model->inside = [&](const at::Tensor& x) {
                return engine.forward(model, x);
              };
              EXPECT_THAT(error_of([&] { engine.forward(model, values({3})); }),
                          HasSubstr("forward() inside forward()"));
              model->inside = nullptr;
              EXPECT_NO_THROW(engine.forward(model, values({3})));
            });
}

TEST_P(UnitContract, SwitchingRequiresGradIsNamed) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              model->embed.set_requires_grad(false);
              EXPECT_THAT(
                  error_of([&] {
                    engine.forward(model, values({4, 3}));
                  }),
                  ::testing::AllOf(HasSubstr("embed"), HasSubstr("Options::groups")));
              model->embed.set_requires_grad(true);
              EXPECT_NO_THROW(engine.forward(model, values({4, 3})));
            });
}

TEST_P(UnitContract, ParametersAreSetBetweenStepsNotBetweenForwardAndBackward) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.set_full_parameter("units.0.w", torch::ones({3}));
              at::Tensor loss = engine.forward(model, values({4, 3}));
              EXPECT_THAT(error_of([&] {
                            engine.set_full_parameter("embed", torch::zeros({3, 3}));
                          }),
                          HasSubstr("between a forward and its backward"));
              engine.backward(loss, 1);
              engine.step();
              engine.set_full_parameter("embed", torch::zeros({3, 3}));
              loss = engine.forward(model, values({4, 3}));
              EXPECT_EQ(loss.template item<double>(), 0);
              loss.reset();  // nobody waits for a backward any more
              engine.set_full_parameter("embed", torch::eye(3));
              EXPECT_NE(engine.forward(model, values({4, 3})).template item<double>(), 0);
            });
}

// ---- exceptions

struct ThrowsImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    if (countdown >= 0 && countdown-- == 0) throw std::runtime_error("from the body");
    return x * w;
  }
  int countdown = -1;
};
struct FragileImpl : nn::Module {
  FragileImpl() {
    embed = register_parameter("embed", values({3, 3}));
    first = register_module("first", Unit<ThrowsImpl>::make());
    second = register_module("second", Unit<ThrowsImpl>::make());
  }
  at::Tensor forward(const at::Tensor& x) {
    return second(first(torch::matmul(x, embed)).sin()).pow(2).sum();
  }
  at::Tensor embed;
  Unit<ThrowsImpl> first, second;
};

TEST_P(UnitContract, AfterAnExceptionInForwardOneGoesOn) {
  each_rank([] { return std::make_shared<FragileImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})), 1);
              model->second->countdown = 0;
              EXPECT_THROW(engine.forward(model, values({4, 3})), std::runtime_error);
              engine.backward(engine.forward(model, values({4, 3}, 0, 1)), 1);
              const double norm = engine.step().grad_norm;
              auto plain = std::make_shared<FragileImpl>();
              plain->forward(values({4, 3})).backward();
              plain->forward(values({4, 3}, 0, 1)).backward();
              double squares = 0;
              for (const at::Tensor& p : plain->parameters())
                squares += p.grad().pow(2).sum().template item<double>();
              EXPECT_NEAR(norm, std::sqrt(squares) / 2, 1e-4 * norm);
            });
}

TEST_P(UnitContract, AfterAnExceptionInBackwardGradientsMustBeDiscarded) {
  if (!recomputes()) GTEST_SKIP() << "nothing of the user's runs in backward";
  auto plain = std::make_shared<FragileImpl>();
  plain->forward(values({4, 3})).backward();
  each_rank([] { return std::make_shared<FragileImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3}, 0, 1)), 1);
              const at::Tensor loss = engine.forward(model, values({4, 3}));
              model->first->countdown = 0;  // the second unit's gradient is there already
              EXPECT_THROW(engine.backward(loss, 1), std::runtime_error);
              for (const auto& call : std::vector<std::function<void()>>{
                       [&] { engine.step(); }, [&] { engine.full_gradient("embed"); },
                       [&] {
                         engine.forward(model, values({4, 3}));
                       },
                       [&] { engine.backward(loss, 1); }}) {
                EXPECT_THAT(error_of(call), HasSubstr("discard_gradients"));
              }
              engine.discard_gradients();
              engine.backward(engine.forward(model, values({4, 3})), 1);
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
              EXPECT_EQ(engine.step().num_targets, ranks());
            });
}

struct FragileTwiceImpl : nn::Module {
  FragileTwiceImpl() { unit = register_module("unit", Unit<ThrowsImpl>::make()); }
  at::Tensor forward(const at::Tensor& x) { return unit(unit(x).sin()).pow(2).sum(); }
  Unit<ThrowsImpl> unit;
};

TEST_P(UnitContract, HalfOfAUnitsGradientIsDiscardedToo) {
  if (!recomputes()) GTEST_SKIP() << "nothing of the user's runs in backward";
  auto plain = std::make_shared<FragileTwiceImpl>();
  plain->forward(values({4, 3})).backward();
  each_rank([] { return std::make_shared<FragileTwiceImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3}, 0, 1));
              model->unit->countdown = 1;  // the later call's gradient is there already
              EXPECT_THROW(engine.backward(loss, 1), std::runtime_error);
              engine.discard_gradients();
              engine.backward(engine.forward(model, values({4, 3})), 1);
              expect_near(engine.full_gradient("unit.w"), plain->unit->w.grad());
            });
}

// ---- buffers

struct NormedImpl : nn::Module {
  NormedImpl() { norm = register_module("norm", nn::BatchNorm1d(3)); }
  at::Tensor forward(const at::Tensor& x) { return norm(x * 2); }
  nn::BatchNorm1d norm{nullptr};
};

TEST_P(UnitContract, BatchNormCountsEachForwardOnce) {
  auto plain = std::make_shared<HolderImpl<NormedImpl>>();
  plain->forward(values({4, 3})).pow(3).sum().backward();
  plain->forward(values({4, 3}, 0, 4)).pow(3).sum().backward();
  each_rank(
      [] { return std::make_shared<HolderImpl<NormedImpl>>(); },
      [&](Engine& engine, auto& model) {
        const at::Tensor one = engine.forward(model, values({4, 3})).pow(3).sum();
        const at::Tensor two = engine.forward(model, values({4, 3}, 0, 4)).pow(3).sum();
        engine.backward(two, 1);  // what it leaves behind, the first must not undo
        engine.backward(one, 0);
        for (const auto& item : plain->named_buffers())
          EXPECT_TRUE(torch::equal(item.value(), model->named_buffers()[item.key()]))
              << item.key();
        for (const auto& item : plain->named_parameters())
          expect_near(engine.full_gradient(item.key()), item.value().grad());
      });
}

struct NormedLinearImpl : nn::Module {
  NormedLinearImpl() {
    linear = register_module("linear", nn::Linear(3, 3));
    norm = register_module("norm", nn::BatchNorm1d(3));
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(values({3, 3}));
    linear->bias.copy_(values({3}));
  }
  at::Tensor forward(const at::Tensor& x) { return norm(linear(x)).relu(); }
  nn::Linear linear{nullptr};
  nn::BatchNorm1d norm{nullptr};
};

// In bf16 the parameters of a batch norm stay fp32, as its statistics do.
TEST_P(UnitContract, BatchNormInBf16IsWhatItIsInLibTorch) {
  options.dtype = DType::kBFloat16;
  for (const bool is_frozen : {false, true}) {
    options.groups.clear();
    if (is_frozen) options.groups = {{"unit.norm.*", 1, {}, /*frozen=*/true}};
    each_rank(
        [] { return std::make_shared<HolderImpl<NormedLinearImpl>>(); },
        [&](Engine& engine, auto& model) {
          auto plain = std::make_shared<HolderImpl<NormedLinearImpl>>();
          plain->unit->linear->to(at::kBFloat16);
          for (int step = 0; step < 2; ++step) {
            const at::Tensor x = values({4, 3}, step, 2), plain_x = x.to(at::kBFloat16);
            const at::Tensor y = engine.forward(model, x),
                             plain_y = plain->forward(plain_x);
            ASSERT_TRUE(torch::equal(y, plain_y)) << y << plain_y;
            plain->zero_grad();
            plain_y.to(at::kFloat).pow(3).sum().backward();
            engine.backward(y.to(at::kFloat).pow(3).sum(), 1);
            for (const auto& item : plain->named_buffers())
              EXPECT_TRUE(torch::equal(item.value(), model->named_buffers()[item.key()]));
            for (const auto& item : plain->named_parameters()) {
              if (is_frozen && item.key().find("norm") != std::string::npos) continue;
              EXPECT_TRUE(torch::equal(engine.full_gradient(item.key()),
                                       item.value().grad().to(at::kFloat)))
                  << item.key();
            }
            EXPECT_FALSE(engine.step().skipped);
            const torch::NoGradGuard no_grad;
            for (const auto& item : plain->named_parameters())
              item.value().copy_(engine.full_parameter(item.key()));
          }
          EXPECT_EQ(engine.allocated_bytes(), [&] {
            int64_t bytes = 0;
            for (const MemoryEntry& entry : engine.memory()) bytes += entry.bytes;
            return bytes;
          }());
        });
  }
}

struct PowerImpl : nn::Module {  // as spectral norm keeps a vector that each forward
                                 // turns
  PowerImpl() {
    w = register_parameter("w", values({3, 3}));
    u = register_buffer("u", values({3}, 0.2, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor now;
    {
      const torch::NoGradGuard no_grad;
      u.copy_(torch::mv(w, u) / torch::mv(w, u).norm());
      now = u.clone();
    }
    return torch::matmul(x, w / torch::dot(now, torch::mv(w, now)));
  }
  at::Tensor w, u;
};

TEST_P(UnitContract, BuffersThatTurnWithEachForwardAreTheSameInBackward) {
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<PowerImpl>>(); },
      [calls = std::make_shared<std::map<std::thread::id, int>>()](
          auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

struct MaskedImpl : ScaleImpl {
  explicit MaskedImpl(int64_t numel) {
    mask = register_buffer("mask", torch::ones({numel}));
  }
  at::Tensor forward(const at::Tensor& x) { return x * w * mask.slice(0, 0, 3).clone(); }
  at::Tensor mask;
};

TEST_P(UnitContract, ABufferChangedBeforeBackwardIsNamed) {
  if (!recomputes()) GTEST_SKIP() << "the graph is kept";
  each_rank([] { return std::make_shared<HolderImpl<MaskedImpl>>(1 << 16); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
              model->unit->mask.zero_();
              EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                          ::testing::AllOf(HasSubstr("mask"), HasSubstr("unit")));
            });
}

TEST_P(UnitContract, ASmallBufferIsInBackwardWhatItWasInForward) {
  auto plain = std::make_shared<HolderImpl<MaskedImpl>>(3);
  plain->forward(values({4, 3})).sum().backward();
  each_rank([] { return std::make_shared<HolderImpl<MaskedImpl>>(3); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
              model->unit->mask.zero_();
              engine.backward(loss, 1);
              expect_near(engine.full_gradient("unit.w"), plain->unit->w.grad());
              EXPECT_EQ(model->unit->mask.sum().template item<float>(), 0);
            });
}

// ---- changed parameters, sparse gradients

struct EmbedsImpl : nn::Module {
  explicit EmbedsImpl(nn::EmbeddingOptions options) {
    torch::manual_seed(4);
    embed = register_module("embed", nn::Embedding(options));
    torch::NoGradGuard no_grad;
    embed->weight.copy_(values({7, 3}, -2, 2));
  }
  at::Tensor forward(const at::Tensor& tokens) { return embed(tokens).pow(2); }
  nn::Embedding embed{nullptr};
};

TEST_P(UnitContract, SparseGradientsAreMadeDense) {
  const auto options = nn::EmbeddingOptions(7, 3).sparse(true);
  expect_plain_numbers([&] { return std::make_shared<HolderImpl<EmbedsImpl>>(options); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor tokens = torch::tensor({1, 5, 1, 0}, at::kLong);
                         return (forward(tokens) * x).sum();
                       });
}

TEST_P(UnitContract, AParameterChangedInForwardIsKeptOrNamed) {
  const auto embedding = nn::EmbeddingOptions(7, 3).max_norm(1.0);
  const at::Tensor tokens = torch::tensor({1, 5}, at::kLong);
  auto plain = std::make_shared<HolderImpl<EmbedsImpl>>(embedding);
  plain->forward(tokens);
  each_rank(
      [&] { return std::make_shared<HolderImpl<EmbedsImpl>>(embedding); },
      [&](Engine& engine, auto& model) {
        if (engine.size() == 1 && !recomputes()) {
          engine.forward(model, tokens);
          expect_near(engine.full_parameter("unit.embed.weight"),
                      plain->unit->embed->weight);
          return;
        }
        EXPECT_THAT(error_of([&] { engine.forward(model, tokens); }),
                    HasSubstr("unit.embed.weight"));
        expect_near(engine.full_parameter("unit.embed.weight"), values({7, 3}, -2, 2));
      });
}

TEST_P(UnitContract, AParameterChangedThroughDataIsNamed) {
  struct ClampsImpl : ScaleImpl {
    at::Tensor forward(const at::Tensor& x) {
      w.data().clamp_(0.6, 0.9);
      return x * w;
    }
  };
  if (ranks() == 1 && !recomputes()) GTEST_SKIP() << "written to its shard";
  each_rank([] { return std::make_shared<HolderImpl<ClampsImpl>>(); },
            [&](Engine& engine, auto& model) {
              EXPECT_THAT(error_of([&] {
                            engine.forward(model, values({4, 3}));
                          }),
                          HasSubstr("unit.w"));
            });
}

// ---- frozen

TEST_P(UnitContract, AFrozenBackboneCostsNothingInBackward) {
  options.groups = {{"units.0.*", 1, {}, true}, {"embed", 1, {}, true}};
  options.trace_comm = ::testing::TempDir() + "frozen_trace_" + std::to_string(ranks()) +
                       std::to_string(recomputes());
  options.prefetch = 0;
  auto plain = std::make_shared<MlpImpl>();
  plain->forward(values({4, 3})).backward();
  on_ranks(ranks(), [&](std::unique_ptr<Communicator> comm) {
    Options mine = options;
    mine.trace_comm += "_" + std::to_string(comm->rank());
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, mine, std::move(comm));
    for (int pass = 0; pass < 2; ++pass) {
      const at::Tensor loss = engine.forward(model, values({4, 3}));
      const int64_t before = engine.num_gathers();
      engine.backward(loss, pass == 0);
      EXPECT_EQ(engine.num_gathers(), before)
          << "units.1 is still there, units.0 unneeded";
    }
    expect_near(engine.full_gradient("units.1.w"),
                plain->named_parameters()["units.1.w"].grad() * 2);
  });
}

// ---- modules in two places

// A unit inside another one and again outside of it.
struct TwiceHeldImpl : nn::Module {
  struct OuterImpl : ScaleImpl {
    OuterImpl() { inner = register_module("inner", Unit<ReluImpl>::make()); }
    at::Tensor forward(const at::Tensor& x) { return inner(x * w); }
    Unit<ReluImpl> inner;
  };
  TwiceHeldImpl() {
    outer = register_module("outer", Unit<OuterImpl>::make());
    again = register_module("again", outer->inner);
  }
  at::Tensor forward(const at::Tensor& x) { return again(outer(x) + x).pow(2).sum(); }
  Unit<OuterImpl> outer;
  Unit<ReluImpl> again;
};

TEST_P(UnitContract, AUnitMayStandInsideAnotherAndOutsideOfIt) {
  expect_plain_numbers([] { return std::make_shared<TwiceHeldImpl>(); },
                       [](auto forward, const at::Tensor& x) { return forward(x); });
}

struct TwoNamesImpl : nn::Module {
  struct BothImpl : nn::Module {
    BothImpl() {
      one = register_module("one", nn::BatchNorm1d(3));
      register_module("two", one.ptr());
    }
    at::Tensor forward(const at::Tensor& x) { return one(one(x) * x); }
    nn::BatchNorm1d one{nullptr};
  };
  TwoNamesImpl() {
    unit = register_module("unit", Unit<BothImpl>::make());
    three = register_module("three", unit->one.ptr());
  }
  at::Tensor forward(const at::Tensor& x) { return three->forward(unit(x)); }
  Unit<BothImpl> unit;
  std::shared_ptr<nn::BatchNorm1dImpl> three;
};

TEST_P(UnitContract, ABufferOfSeveralNamesIsOne) {
  auto plain = std::make_shared<TwoNamesImpl>();
  plain->forward(values({4, 3})).pow(3).sum().backward();
  each_rank([] { return std::make_shared<TwoNamesImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})).pow(3).sum(), 1);
              for (const auto& item : plain->named_buffers())
                expect_near(model->named_buffers()[item.key()], item.value());
              for (const auto& item : plain->named_parameters())
                expect_near(engine.full_gradient(item.key()), item.value().grad());
            });
}

// As observers keep the largest value they saw: not every forward changes it.
struct ObserverImpl : ScaleImpl {
  ObserverImpl() { largest = register_buffer("largest", torch::zeros({3})); }
  at::Tensor forward(const at::Tensor& x) {
    {
      const torch::NoGradGuard no_grad;
      largest.copy_(torch::max(largest, std::get<0>(x.max(0))));
    }
    return x * w * largest.clone();
  }
  at::Tensor largest;
};

TEST_P(UnitContract, AForwardMayLeaveABufferThatTheNextOneChanges) {
  auto plain = std::make_shared<HolderImpl<ObserverImpl>>();
  for (const double to : {1.0, 2.0, 2.0, 3.0})
    plain->forward(values({4, 3}, 0, to)).sum().backward();
  each_rank([] { return std::make_shared<HolderImpl<ObserverImpl>>(); },
            [&](Engine& engine, auto& model) {
              std::vector<at::Tensor> losses;
              for (const double to : {1.0, 2.0, 2.0, 3.0})
                losses.push_back(engine.forward(model, values({4, 3}, 0, to)).sum());
              for (const at::Tensor& loss : losses)
                engine.backward(loss, &loss == &losses[0]);
              expect_near(engine.full_gradient("unit.w"), plain->unit->w.grad());
              expect_near(model->unit->largest, plain->unit->largest);
            });
}

TEST_P(UnitContract, ForwardMayFollowFullGradient) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})), 1);
              engine.full_gradient("embed");
              const at::Tensor loss = engine.forward(model, values({4, 3}));
              EXPECT_FALSE(engine.step().skipped);
              const torch::NoGradGuard no_grad;
              EXPECT_LT(engine.forward(model, values({4, 3})).template item<double>(),
                        loss.template item<double>());
            });
}

TEST_P(UnitContract, StreamingChangesNoBitOfAUnitThatIsCalledTwice) {
  if (ranks() > 1) GTEST_SKIP() << "one rank computes in place";
  std::vector<at::Tensor> grads;
  for (const bool streams : {false, true}) {
    options.stream_always = streams;
    each_rank([] { return std::make_shared<TwiceHeldImpl>(); },
              [&](Engine& engine, auto& model) {
                for (const double to : {1.1, 1.7, 2.3})
                  engine.backward(engine.forward(model, values({4, 3}, -1, to)), 1);
                grads.push_back(engine.full_gradient("again.w"));
              });
  }
  EXPECT_TRUE(torch::equal(grads[0], grads[1])) << grads;
}

// ---- what a body may ask for and do

struct AsksImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    const bool trains = torch::GradMode::is_enabled() && x.requires_grad();
    const at::Tensor y = x * w;
    return trains && y.requires_grad() ? y : y * 3;
  }
};

TEST_P(UnitContract, ABodySeesWhatNeedsAGradient) {
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<AsksImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x.sin()).pow(2).sum(); });
}

TEST_P(UnitContract, ViewsMayBeChangedInPlace) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<AddsInPlaceImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor h = torch::cat({x.sin(), x}).view({2, 12});
                         const at::Tensor y = forward(h[1].view({4, 3}));
                         const at::Tensor batch = values({6, 3});
                         const at::Tensor z = forward(batch.narrow(0, 1, 4));
                         return (y.sum() * h.pow(2).sum()) + (z * x + batch.sum()).sum();
                       });
}

struct DropsInPlaceImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    if (is_training()) x.mul_(2);
    return x * w;
  }
};

TEST_P(UnitContract, AnInputMayBeChangedInTrainingOnly) {
  each_rank([] { return std::make_shared<HolderImpl<DropsInPlaceImpl>>(); },
            [&](Engine& engine, auto& model) {
              auto plain = std::make_shared<HolderImpl<DropsInPlaceImpl>>();
              for (const bool trains : {false, true, false}) {
                model->train(trains), plain->train(trains);
                const at::Tensor h = values({4, 3}), plain_h = values({4, 3});
                engine.backward((engine.forward(model, h) * h).sum(), 1);
                (plain->forward(plain_h) * plain_h).sum().backward();
              }
              expect_near(engine.full_gradient("unit.w") * 3, plain->unit->w.grad());
            });
}

TEST_P(UnitContract, SwitchingRequiresGradBeforeBackwardIsNamed) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor loss = engine.forward(model, values({4, 3}));
              model->embed.set_requires_grad(false);
              EXPECT_THAT(error_of([&] { engine.backward(loss, 1); }),
                          HasSubstr("embed"));
              model->embed.set_requires_grad(true);
              const torch::NoGradGuard no_grad;  // is no concern of backward's
              engine.backward(loss, 1);
              EXPECT_FALSE(engine.step().skipped);
            });
}

TEST_P(UnitContract, AUnitMayHaveParametersOfNoElements) {
  struct EmptyImpl : nn::Module {
    EmptyImpl() { w = register_parameter("w", torch::zeros({0, 3})); }
    at::Tensor forward(const at::Tensor& x) { return torch::cat({x * 2, w}); }
    at::Tensor w;
  };
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<EmptyImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

// A buffer that grows with each forward, as a cache does.
TEST_P(UnitContract, ABufferMayGrow) {
  struct CacheImpl : ScaleImpl {
    CacheImpl() { cache = register_buffer("cache", torch::ones({1, 3})); }
    at::Tensor forward(const at::Tensor& x) {
      cache.set_data(torch::cat({cache, x.detach()}));
      return x * w * cache.mean(0);
    }
    at::Tensor cache;
  };
  each_rank([] { return std::make_shared<HolderImpl<CacheImpl>>(); },
            [&](Engine& engine, auto& model) {
              auto plain = std::make_shared<HolderImpl<CacheImpl>>();
              for (int step = 0; step < 2; ++step) {
                engine.backward(engine.forward(model, values({4, 3})).sum(), 1);
                plain->forward(values({4, 3})).sum().backward();
                EXPECT_TRUE(torch::equal(model->unit->cache, plain->unit->cache));
              }
              expect_near(engine.full_gradient("unit.w") * 2, plain->unit->w.grad());
            });
}

struct ResultAndRowImpl : ScaleImpl {
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor y = x * w;
    return {y, y.select(0, 1)};
  }
};

TEST_P(UnitContract, AResultMayBeAViewOfAnother) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<ResultAndRowImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         auto [y, row] = forward(x);
                         y.mul_(3);
                         return row.pow(2).sum() + y.sum();
                       });
}

struct MulThenSinImpl : ScaleImpl {
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    x.mul_(w);
    return {x.sin(), x.view({-1})};
  }
};

TEST_P(UnitContract, WhatWasChangedInPlaceMayBeUsedAndShown) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<MulThenSinImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         auto [y, flat] = forward(x * 1);
                         return y.pow(2).sum() + flat.pow(3).sum();
                       });
}

TEST_P(UnitContract, OneTensorGivenTwiceIsNotChangedInPlace) {
  struct BothImpl : ScaleImpl {
    at::Tensor forward(const at::Tensor& a, const at::Tensor& b) {
      a.mul_(w);
      return a * b;
    }
  };
  each_rank([] { return std::make_shared<HolderImpl<BothImpl>>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor h = values({4, 3});
              EXPECT_THAT(error_of([&] { engine.forward(model, h, h); }),
                          HasSubstr("twice"));
            });
}

TEST_P(UnitContract, CallsFromHooksAndBodiesAreNamed) {
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor x = values({4, 3}).requires_grad_();
              const at::Tensor h = x * 1;
              int num_refused = 0;
              h.register_hook([&](const at::Tensor&) {
                for (const auto& call : std::vector<std::function<void()>>{
                         [&] { engine.step(); }, [&] { engine.discard_gradients(); },
                         [&] { engine.full_gradient("embed"); },
                         [&] { engine.masters_changed(); },
                         [&] { engine.set_full_parameter("embed", torch::eye(3)); },
                         [&] {
                           engine.forward(model, values({4, 3}));
                         }}) {
                  EXPECT_THAT(error_of(call), ::testing::AnyOf(HasSubstr("inside"),
                                                               HasSubstr("outside")));
                  ++num_refused;
                }
              });
              engine.backward(engine.forward(model, h), 1);
              EXPECT_EQ(num_refused, 6);
              EXPECT_FALSE(engine.step().skipped);
            });
}

TEST_P(UnitContract, RanksThatMakeOtherCallsGetAnError) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to differ from";
  EXPECT_THROW(each_rank([] { return std::make_shared<MlpImpl>(); },
                         [&](Engine& engine, auto& model) {
                           for (int pass = 0; pass <= engine.rank(); ++pass)
                             engine.backward(engine.forward(model, values({4, 3})), 1);
                           engine.step();
                         }),
               Error);
  EXPECT_THROW(each_rank([] { return std::make_shared<MlpImpl>(); },
                         [&](Engine& engine, auto& model) {
                           engine.backward(engine.forward(model, values({4, 3})), 1);
                           if (engine.rank() == 0) engine.discard_gradients();
                           engine.step();
                         }),
               Error);
  EXPECT_THROW(each_rank([] { return std::make_shared<MlpImpl>(); },
                         [&](Engine& engine, auto& model) {
                           if (engine.rank() == 0) engine.full_parameter("embed");
                           engine.backward(engine.forward(model, values({4, 3})), 1);
                           engine.step();
                         }),
               Error);
}

TEST_P(UnitContract, AGraphOutlivesFullGradient) {
  auto plain = std::make_shared<MlpImpl>();
  const at::Tensor plain_x = values({4, 3}).requires_grad_();
  plain->forward(plain_x).backward();
  each_rank([] { return std::make_shared<MlpImpl>(); },
            [&](Engine& engine, auto& model) {
              engine.backward(engine.forward(model, values({4, 3})), 1);
              const at::Tensor x = values({4, 3}).requires_grad_();
              const at::Tensor loss = engine.forward(model, x);
              engine.full_gradient("embed");
              expect_near(torch::autograd::grad({loss}, {x})[0], plain_x.grad());
              EXPECT_FALSE(engine.step().skipped);
            });
}

TEST_P(UnitContract, ABufferMayBeExpanded) {
  struct TableImpl : ScaleImpl {
    TableImpl() { table = register_buffer("table", values({1, 3}).expand({4, 3})); }
    at::Tensor forward(const at::Tensor& x) { return x * w + table; }
    at::Tensor table;
  };
  expect_plain_numbers(
      [] { return std::make_shared<HolderImpl<TableImpl>>(); },
      [](auto forward, const at::Tensor& x) { return forward(x).pow(2).sum(); });
}

}  // namespace
}  // namespace zero::testing
