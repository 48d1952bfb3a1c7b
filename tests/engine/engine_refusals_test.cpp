// What would train other numbers than the model's is refused by name, and the engine goes
// on as if it had not been asked.
#include "tests/engine/small_models.h"
#include "zero/deferred_init.h"
#include "zero/save_load.h"

namespace zero::testing::engine_refusals_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace nn = torch::nn;

std::string foreign_error_of(const std::function<void()>& call) {
  try {
    call();
    return "no error";
  } catch (const std::exception& error) {
    return error.what();
  }
}

class EngineRefusals : public ::testing::TestWithParam<int> {
 protected:
  EngineRefusals() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
  }
  template <class Model>
  std::string complaint(const std::shared_ptr<Model>& model) {
    return error_of([&] {
      on_ranks(1, [&](std::unique_ptr<Ranks> comm) {
        Engine(model, options, std::move(comm));
      });
    });
  }
  Options options;
};

INSTANTIATE_TEST_SUITE_P(, EngineRefusals, ::testing::Values(1, 2));

struct PairImpl : nn::Module {
  explicit PairImpl(const std::function<void(at::Tensor& a, at::Tensor& b)>& change) {
    a = values({4, 3}), b = values({4, 3});
    change(a, b);
    register_parameter("a", a);
    register_parameter("b", b);
  }
  at::Tensor a, b;
};

TEST_F(EngineRefusals, ParametersThatShareMemoryAreNamedBoth) {
  const auto told = [&](const std::function<void(at::Tensor&, at::Tensor&)>& change) {
    return complaint(std::make_shared<PairImpl>(change));
  };
  const auto both = AllOf(HasSubstr("share memory"), HasSubstr("a, b"));
  EXPECT_THAT(told([](at::Tensor& a, at::Tensor& b) { b.set_data(a.data()); }), both);
  EXPECT_THAT(told([](at::Tensor& a, at::Tensor& b) {
                b = a.view({3, 4}).detach();
              }),
              both);
  EXPECT_THAT(told([](at::Tensor& a, at::Tensor& b) {
                b = torch::from_blob(a.data_ptr<float>() + 11, {1});
              }),
              both);
  EXPECT_EQ(told([](at::Tensor& a, at::Tensor& b) {
              const at::Tensor whole = values({8, 3});
              a = whole.narrow(0, 0, 4).detach(), b = whole.narrow(0, 4, 4).detach();
            }),
            "no error");
}

TEST_F(EngineRefusals, ADeferredParameterThatShowsAnotherIsNamedToo) {
  std::shared_ptr<PairImpl> model;
  {
    const DeferredInit guard;
    model = std::make_shared<PairImpl>([](at::Tensor& a, at::Tensor& b) {
      b = a.view({3, 4}).detach();
    });
  }
  EXPECT_THAT(complaint(model), AllOf(HasSubstr("share memory"), HasSubstr("a, b")));
}

TEST_F(EngineRefusals, AParameterThatIsNotDenseIsNamed) {
  EXPECT_THAT(complaint(std::make_shared<PairImpl>([](at::Tensor&, at::Tensor& b) {
                b = values({3}).expand({4, 3});
              })),
              AllOf(HasSubstr("expanded"), HasSubstr("b")));
  EXPECT_THAT(complaint(std::make_shared<PairImpl>(
                  [](at::Tensor&, at::Tensor& b) { b = torch::eye(3).to_sparse(); })),
              AllOf(HasSubstr("sparse"), HasSubstr("b")));
}

TEST_F(EngineRefusals, ABufferThatSharesMemoryWithAParameterIsNamed) {
  struct AliasImpl : nn::Module {
    explicit AliasImpl(bool shares) {
      const at::Tensor w = register_parameter("w", values({4, 3}));
      const at::Tensor seen = w.detach().view({12}).narrow(0, 2, 3);
      register_buffer("seen", shares ? seen : seen.clone());
      register_buffer("twice", values({4}));
      register_buffer("again", named_buffers()["twice"]);
    }
  };
  EXPECT_THAT(complaint(std::make_shared<AliasImpl>(true)),
              AllOf(HasSubstr("a buffer shares memory"), HasSubstr("w, seen")));
  EXPECT_EQ(complaint(std::make_shared<AliasImpl>(false)), "no error");
}

// A null pointer would end the process.
TEST_P(EngineRefusals, AViewThatIsReadBehindItsForwardIsNamed) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>();
    at::Tensor view;
    {
      Engine engine(model, options, std::move(comm));
      const at::Tensor loss = engine.forward(model, values({4, 3}));
      view = model->embed.detach();
      EXPECT_EQ(view.sum().item<float>(), values({3, 3}).sum().item<float>());
      engine.backward(loss, 1);
      EXPECT_FALSE(engine.step().skipped);
      EXPECT_THAT(foreign_error_of([&] { view.sum(); }),
                  HasSubstr("a view of embed is read while the parameter is released"));
    }
    EXPECT_THAT(foreign_error_of([&] { view.sum(); }),
                HasSubstr("the zero::Engine of this parameter is gone"));
  });
}

TEST_P(EngineRefusals, AParameterThatGotAnotherTensorIsNamed) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, options, std::move(comm));
    const torch::NoGradGuard no_grad;
    engine.forward(model, values({4, 3}));
    model->embed.set_data(torch::zeros({3, 3}));
    EXPECT_THAT(error_of([&] {
                  engine.forward(model, values({4, 3}));
                }),
                AllOf(HasSubstr("embed"), HasSubstr("set_data()")));
  });
}

// What all ranks must say alike: who differs is told, and nothing is written.
TEST_F(EngineRefusals, RanksThatDifferAreTold) {
  const auto expect_diverged =
      [&](const std::function<void(Engine & engine, MlpImpl & model, bool first)>& call) {
        on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
          auto model = std::make_shared<MlpImpl>();
          const bool is_first = comm->rank() == 0;
          Engine engine(model, options, std::move(comm));
          EXPECT_NE(
              error_of([&] { call(engine, *model, is_first); }, ExitCode::kDiverged),
              "no error");
          for (const float value : engine.local_shard("embed").master.read_all())
            EXPECT_GE(value, -1);
        });
      };
  expect_diverged([](Engine& engine, MlpImpl&, bool first) {
    engine.set_full_parameter("embed", torch::full({3, 3}, first ? -7 : -8));
  });
  expect_diverged([](Engine& engine, MlpImpl&, bool first) {
    first ? engine.set_full_parameter("embed", torch::full({3, 3}, -7))
          : engine.set_full_parameter("units.0.w", torch::full({3}, -7));
  });
  expect_diverged([](Engine& engine, MlpImpl& model, bool first) {
    engine.set_learning_rate(first ? 0.1 : 0.1000001);
    MlpImpl* const pointer = &model;
    engine.backward(engine.forward(pointer, values({4, 3})), 1);
    engine.step();
  });
  expect_diverged([](Engine& engine, MlpImpl&, bool first) {
    LoadOptions how;
    how.fresh_optimizer = first;
    load_checkpoint(engine, "nowhere", how);
  });
  expect_diverged([](Engine& engine, MlpImpl&, bool first) {
    save_checkpoint(engine, "nowhere", {.step = first ? -1 : -2});
  });
  options.dtype = DType::kFp16;
  expect_diverged([](Engine& engine, MlpImpl& model, bool first) {
    engine.set_loss_scale({first ? 256 : 128, 0});
    MlpImpl* const pointer = &model;
    engine.backward(engine.forward(pointer, values({4, 3})), 1);
    engine.step();
  });
}

TEST_F(EngineRefusals, WhatOneRankRefusesNoneWrites) {
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>();
    const bool is_first = comm->rank() == 0;
    Engine engine(model, options, std::move(comm));
    EXPECT_THAT(
        error_of([&] {
          engine.set_full_parameter("embed", torch::full({is_first ? 3 : 2, 3}, -7));
        }),
        HasSubstr("another shape"));
    EXPECT_TRUE(engine.full_parameter("embed").equal(values({3, 3})));
  });
}

TEST_F(EngineRefusals, ASaveBeforeAllStepsIsNamed) {
  auto model = std::make_shared<MlpImpl>();
  Engine engine(model, options);
  EXPECT_THAT(error_of([&] { save_checkpoint(engine, "nowhere", {.step = -1}); }),
              HasSubstr("a save of step -1"));
}

// Gradients that a hook takes through a unit are not the step's.
TEST_F(EngineRefusals, AnotherBackwardInsideOneCollectsNothing) {
  struct HookedImpl : nn::Module {
    HookedImpl() { unit = register_module("unit", Unit<AffineImpl>::make()); }
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor y = unit(x), again = x.detach().requires_grad_();
      const at::Tensor other = unit(again).sum();
      y.register_hook([=](const at::Tensor& grad) {
        return grad + torch::autograd::grad({other}, {again}, {}, true)[0];
      });
      return y.sum();
    }
    Unit<AffineImpl> unit;
  };
  for (const Recompute recompute : {Recompute::kUnit, Recompute::kNone}) {
    options.recompute = recompute;
    auto model = std::make_shared<HookedImpl>();
    Engine engine(model, options);
    const at::Tensor x = values({4, 3}), w = engine.full_parameter("unit.w");
    engine.backward(engine.forward(model, x), 1);
    expect_near(engine.full_gradient("unit.w"), (x * (1 + w)).sum(0));
  }
}

TEST_P(EngineRefusals, AForwardOfAnotherModelIsNamed) {
  struct WrapperImpl : nn::Module {
    at::Tensor forward(const at::Tensor& x) { return model->forward(x) * 2; }
    std::shared_ptr<MlpImpl> model;
  };
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>(), other = std::make_shared<MlpImpl>();
    Engine engine(model, options, std::move(comm));
    EXPECT_THAT(error_of([&] {
                  engine.forward(other, values({4, 3}));
                }),
                HasSubstr("embed"));
    auto wrapper = std::make_shared<WrapperImpl>();
    wrapper->model = wrapper->register_module("model", model);
    engine.backward(engine.forward(wrapper, values({4, 3})), 1);
    EXPECT_FALSE(engine.step().skipped);
  });
}

TEST_P(EngineRefusals, ALossThatReachesNoParameterIsNamed) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, options, std::move(comm));
    const at::Tensor x = values({4, 3}).requires_grad_();
    EXPECT_THAT(error_of([&] { engine.backward(x.sum(), 1); }),
                HasSubstr("reaches no parameter"));
    EXPECT_FALSE(x.grad().defined());
    engine.backward(engine.forward(model, x), 1);
    EXPECT_FALSE(engine.step().skipped);
  });
}

TEST_P(EngineRefusals, AValueThatIsNotFiniteIsNoParameter) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, options, std::move(comm));
    for (const double bad : {double(NAN), double(INFINITY), 1e300})
      EXPECT_THAT(
          error_of([&] {
            engine.set_full_parameter("embed", torch::full({3, 3}, bad, at::kDouble));
          }),
          AllOf(HasSubstr("not finite"), HasSubstr("embed")));
    EXPECT_TRUE(engine.full_parameter("embed").equal(values({3, 3})));
  });
}

TEST_P(EngineRefusals, AnOptimizersStartIsNoLaterThanTheLastStep) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<MlpImpl>();
    Engine engine(model, options, std::move(comm));
    engine.set_num_steps(2);
    for (const int start : {-1, 3})
      EXPECT_THAT(error_of([&] { engine.set_optimizer_start("embed", start); }),
                  AllOf(HasSubstr("start of " + std::to_string(start)),
                        HasSubstr("embed"), HasSubstr("num_steps() = 2")));
    EXPECT_EQ(engine.optimizer_start("embed"), 0);
    engine.set_optimizer_start("embed", 2);
    EXPECT_EQ(engine.optimizer_start("embed"), 2);
  });
}

struct LayoutsImpl : nn::Module {
  LayoutsImpl() {
    w = register_parameter("w", values({3}));
    turned = register_buffer("turned", values({2, 3}).t());
    wide = register_buffer("wide", values({3}).expand({2, 3}));
  }
  at::Tensor w, turned, wide;
};

TEST_P(EngineRefusals, BuffersOfAnyLayoutAreSetAsTheyAreRead) {
  on_ranks(GetParam(), [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<LayoutsImpl>();
    Engine engine(model, options, std::move(comm));
    ASSERT_EQ(engine.buffers().size(), 2u);
    for (const BufferView& view : engine.buffers()) {
      const at::Tensor value = values(view.shape, 2, 7);
      engine.set_buffer(view.fqn, value);
      EXPECT_TRUE(engine.averaged_buffer(view.fqn).equal(value)) << view.fqn;
      for (const double sign : {1.0, -1.0}) {
        engine.set_buffer(view.fqn, torch::zeros(view.shape) * sign);
        const at::Tensor zeros = engine.averaged_buffer(view.fqn);
        EXPECT_TRUE(zeros.signbit().equal((torch::zeros(view.shape) * sign).signbit()));
      }
    }
  });
}

}  // namespace
}  // namespace zero::testing::engine_refusals_test
