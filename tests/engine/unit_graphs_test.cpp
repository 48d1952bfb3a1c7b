// Forwards and their backwards (docs/units.md, "Calls" and "Gradients of others"): the
// numbers of the plain module, or an error by name before anything has changed.
#include "tests/engine/small_models.h"

namespace zero::testing::unit_graphs_test {
namespace {

using ::testing::HasSubstr;
namespace nn = torch::nn;

// ---- gradients that others ask for

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
  on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
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
    on_ranks(ranks(), [&](std::unique_ptr<Ranks> comm) {
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

TEST_P(UnitContract, AForwardThatThrewHasDrawnNothing) {
  if (ranks() > 1) GTEST_SKIP() << "threads draw from one generator";
  struct DropsImpl : ThrowsImpl {
    at::Tensor forward(const at::Tensor& x) {
      return at::dropout(ThrowsImpl::forward(x), 0.5, true);
    }
  };
  const auto drawn = [&](bool throws) {
    std::vector<at::Tensor> all;
    each_rank(
        [] { return std::make_shared<HolderImpl<DropsImpl>>(); },
        [&](Engine& engine, auto& model) {
          for (const bool has_grad : {true, false}) {
            const at::AutoGradMode mode(has_grad);
            model->unit->countdown = throws ? 0 : -1;
            if (throws) {
              EXPECT_THROW(engine.forward(model, values({4, 3})), std::runtime_error);
            }
            const at::Tensor result = engine.forward(model, values({4, 3}));
            if (engine.rank() == 0) all.push_back(result.detach());
          }
        });
    return torch::stack(all);
  };
  EXPECT_TRUE(drawn(false).equal(drawn(true)));
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

}  // namespace
}  // namespace zero::testing::unit_graphs_test
