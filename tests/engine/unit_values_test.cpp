// What units take and return (docs/units.md, "Arguments and results"): the numbers of the
// plain module, or an error by name before anything has changed.
#include <array>

#include "tests/engine/small_models.h"

namespace zero::testing::unit_values_test {
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

TEST_P(UnitContract, AParameterThatWasReturnedStaysWhenOthersAreGathered) {
  each_rank([] { return std::make_shared<HolderImpl<ViewsImpl>>(); },
            [&](Engine& engine, auto& model) {
              const auto returned = [&] {
                const torch::NoGradGuard no_grad;
                return std::get<1>(engine.forward(model, values({4, 3})));
              };
              const at::Tensor before = returned(), kept = before.clone();
              const auto [y, w, rows] = engine.forward(model, values({4, 3}));
              engine.backward((y * rows).sum() + w.sum(), 1);
              engine.step();
              EXPECT_FALSE(torch::equal(returned(), kept)) << "the step changes it";
              EXPECT_TRUE(torch::equal(before, kept));
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

TEST_P(UnitContract, WhatShowsWeightsLosesItsMemoryWithThem) {
  struct KeepsImpl : ScaleImpl {
    at::Tensor forward(const at::Tensor& x) {
      kept = w.detach();
      return x * w;
    }
    at::Tensor kept;
  };
  each_rank([] { return std::make_shared<HolderImpl<KeepsImpl>>(); },
            [&](Engine& engine, auto& model) {
              const auto expect_named = [&] {
                try {
                  model->unit->kept.sum();
                  ADD_FAILURE() << "it could be read";
                } catch (const c10::Error& error) {
                  EXPECT_THAT(error.what(), HasSubstr("a view of unit.w is read"));
                }
              };
              const at::Tensor loss = engine.forward(model, values({4, 3})).sum();
              expect_named();
              engine.backward(loss, 1);
              expect_named();
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

TEST_P(UnitContract, ALeafMayNotBeChangedInPlace) {
  each_rank([] { return std::make_shared<HolderImpl<InPlaceImpl>>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor x = values({4, 3}).requires_grad_();
              EXPECT_THAT(error_of([&] { engine.forward(model, x); }),
                          HasSubstr("which is a leaf that requires grad"));
              engine.backward(engine.forward(model, x * 2).sum(), 1);
              EXPECT_FALSE(engine.step().skipped);
            });
}

TEST_P(UnitContract, WhatChangesAnInputMayHaveAGradientAskedForTwice) {
  each_rank([] { return std::make_shared<HolderImpl<InPlaceImpl>>(); },
            [&](Engine& engine, auto& model) {
              const at::Tensor x = values({4, 3}).requires_grad_();
              const at::Tensor loss = engine.forward(model, x * 2).sin().sum();
              const auto grad = [&] {
                return torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true)[0];
              };
              const at::Tensor first = grad().clone();
              EXPECT_TRUE(torch::equal(grad(), first));
            });
}

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

struct ResultAndRowImpl : ScaleImpl {
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor y = x * w;
    return {y.select(0, 1), y, y.t()};
  }
};

TEST_P(UnitContract, AResultMayBeAViewOfAnother) {
  for (const size_t changed : {0, 1, 2})
    expect_plain_numbers([] { return std::make_shared<HolderImpl<ResultAndRowImpl>>(); },
                         [changed](auto forward, const at::Tensor& x) {
                           const std::vector<at::Tensor> y = forward(x);
                           y[changed].mul_(3);
                           return y[0].pow(2).sum() + y[1].sum() + y[2].pow(3).sum();
                         });
}

// What two results are views of is not returned: autograd, which does not know what they
// share, lets nobody change them.
struct HiddenBaseImpl : ScaleImpl {
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor y = x * w, column = y.t();
    switch (kind) {
      case 0:
        return {column, column[0]};
      case 1:
        return {y.narrow(0, 0, 2), y.narrow(0, 1, 2)};
      case 2:
        return {y.narrow(1, 0, 2), y.narrow(1, 1, 2)};
      default:
        return {y.narrow(1, 0, 1), y.narrow(1, 1, 2)};  // apart from each other
    }
  }
  int kind = 0;
};

TEST_P(UnitContract, ResultsThatAreViewsOfWhatIsNotReturnedStayAsTheyAre) {
  for (const int kind : {0, 1, 2, 3}) {
    const auto make = [kind] {
      const auto model = std::make_shared<HolderImpl<HiddenBaseImpl>>();
      model->unit->kind = kind;
      return model;
    };
    expect_plain_numbers(make, [](auto forward, const at::Tensor& x) {
      const std::vector<at::Tensor> y = forward(x);
      return y[0].pow(2).sum() + y[1].pow(3).sum();
    });
    if (kind == 3) {
      expect_plain_numbers(make, [](auto forward, const at::Tensor& x) {
        const std::vector<at::Tensor> y = forward(x);
        y[0].mul_(2);
        return y[0].pow(2).sum() + y[1].pow(3).sum();
      });
      continue;
    }
    each_rank(make, [&](Engine& engine, auto& model) {
      const std::vector<at::Tensor> y = engine.forward(model, values({4, 3}));
      EXPECT_THROW(y[0].mul_(2), c10::Error) << kind;
    });
  }
}

struct ConjugatesImpl : ScaleImpl {
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor y = x * w;
    return {x.conj(), y, y.conj(), at::_neg_view(x)};
  }
};

TEST_P(UnitContract, ResultsMayBeConjugatesOfOthers) {
  expect_plain_numbers([] { return std::make_shared<HolderImpl<ConjugatesImpl>>(); },
                       [](auto forward, const at::Tensor& x) {
                         const at::Tensor z = at::complex(x, x.sin());
                         const std::vector<at::Tensor> y = forward(z);
                         return at::real(y[0] * y[1] * y[2]).sum() +
                                at::imag(y[0] * y[3].pow(2)).sum();
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
  each_rank(
      [] { return std::make_shared<HolderImpl<BothImpl>>(); },
      [&](Engine& engine, auto& model) {
        const at::Tensor h = values({4, 3});
        EXPECT_THAT(error_of([&] { engine.forward(model, h, h); }), HasSubstr("twice"));
        const at::Tensor rows = values({8, 3});
        for (const at::Tensor& other :
             {rows.narrow(0, 2, 4), rows.slice(0, 0, 8, 2), rows.narrow(0, 0, 4)})
          EXPECT_THAT(
              error_of([&] { engine.forward(model, rows.narrow(0, 0, 4), other); }),
              HasSubstr("share memory"));
        // A row within the span of two columns.
        EXPECT_THAT(error_of([&] {
                      engine.forward(model, rows.narrow(0, 3, 1), rows.narrow(1, 0, 1));
                    }),
                    HasSubstr("share memory"));
        engine.forward(model, rows.narrow(0, 0, 4), rows.narrow(0, 4, 4));
        engine.forward(model, rows.slice(0, 0, 8, 2), rows.slice(0, 1, 8, 2));
      });
}

}  // namespace
}  // namespace zero::testing::unit_values_test
