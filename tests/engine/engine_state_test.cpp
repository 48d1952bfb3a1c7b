// Parameters, gradients and buffers as others see and change them.
#include <torch/torch.h>

#include "tests/engine/unit_contract.h"

namespace zero::testing::engine_state_test {
namespace {

using ::testing::HasSubstr;
namespace nn = torch::nn;

struct ScaleImpl : nn::Module {
  ScaleImpl() { w = register_parameter("w", values({130}, 0.5, 2)); }
  at::Tensor forward(const at::Tensor& x) { return x * w; }
  at::Tensor w;
};
struct ModelImpl : nn::Module {
  ModelImpl() {
    w = register_parameter("w", values({130}, 1, 3));
    unit = register_module("unit", Unit<ScaleImpl>::make());
  }
  at::Tensor forward(const at::Tensor& x) { return unit(x * w).sum(); }
  at::Tensor w;
  Unit<ScaleImpl> unit{nullptr};
};

class EngineState : public ::testing::TestWithParam<std::tuple<int, DType>> {
 protected:
  EngineState() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
    options.dtype = std::get<1>(GetParam());
  }
  template <class Model, class Body>
  void each_rank(Body body) {
    on_ranks(std::get<0>(GetParam()), [&](std::unique_ptr<Ranks> comm) {
      auto model = std::make_shared<Model>();
      Engine engine(model, options, std::move(comm));
      body(engine, model);
    });
  }
  static double evaluate(Engine& engine, std::shared_ptr<ModelImpl>& model) {
    const torch::NoGradGuard no_grad;
    return engine.forward(model, torch::ones({130})).item<double>();
  }
  Options options;
};

INSTANTIATE_TEST_SUITE_P(, EngineState,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(DType::kFp32,
                                                              DType::kBf16)));

TEST_P(EngineState, ForwardComputesWithWhatWasWrittenThroughShards) {
  each_rank<ModelImpl>([&](Engine& engine, auto& model) {
    EXPECT_NE(evaluate(engine, model), 130 * 6.0);  // all weights are gathered now
    for (const ShardView& view : engine.shards())
      std::ranges::fill(view.master.span(), view.fqn == "w" ? 2.0f : 3.0f);
    engine.masters_changed();
    EXPECT_EQ(evaluate(engine, model), 130 * 6.0);
  });
}

TEST_P(EngineState, ForwardComputesWithWhatWasSet) {
  each_rank<ModelImpl>([&](Engine& engine, auto& model) {
    evaluate(engine, model);
    engine.set_full_parameter("unit.w", torch::full({130}, 2));
    EXPECT_TRUE(torch::equal(engine.full_parameter("w"), values({130}, 1, 3)));
    engine.set_full_parameter("w", torch::full({130}, 0.5));
    EXPECT_EQ(evaluate(engine, model), 130);
  });
}

TEST_P(EngineState, ForwardComputesWithTheUpdatedWeights) {
  options.schedule.lr = 0.5;
  options.optimizer.weight_decay = 0;
  options.optimizer.eps = 0;
  each_rank<ModelImpl>([&](Engine& engine, auto& model) {
    engine.set_full_parameter("unit.w", torch::full({130}, 2));
    engine.set_full_parameter("w", torch::full({130}, 1));
    engine.backward(engine.forward(model, torch::ones({130})), 1);
    engine.step();  // every gradient is positive: all weights fall by lr
    EXPECT_EQ(evaluate(engine, model), 130 * 1.5 * 0.5);
  });
}

TEST_P(EngineState, FrozenWeightsAreComputedWith) {
  options.groups = {{"*", 1, {}, true}};
  each_rank<ModelImpl>([&](Engine& engine, auto& model) {
    const double plain =
        (values({130}, 0.5, 2) * values({130}, 1, 3)).sum().item<double>();
    EXPECT_NEAR(evaluate(engine, model), plain, 0.01 * plain);
    engine.set_full_parameter("unit.w", torch::full({130}, 2));
    engine.set_full_parameter("w", torch::full({130}, 0.5));
    EXPECT_EQ(evaluate(engine, model), 130);
  });
}

// Without a unit in the graph torch alone can tell, once new weights lie where old ones
// lay.
TEST_P(EngineState, GraphsMadeBeforeAnUpdateAreRefusedByTorchToo) {
  options.schedule.lr = 0.5;
  each_rank<ScaleImpl>([&](Engine& engine, auto& model) {
    const at::Tensor x = torch::ones({130}).requires_grad_();
    const at::Tensor old = engine.forward(model, x).sum();
    engine.backward(engine.forward(model, x).sum(), 1);
    engine.step();
    const at::Tensor now = engine.forward(model, x).sum();
    EXPECT_ANY_THROW(torch::autograd::grad({old}, {x}));
    EXPECT_NO_THROW(torch::autograd::grad({now}, {x}));
  });
}

// ---- buffers

struct BuffersImpl : nn::Module {
  BuffersImpl() {
    w = register_parameter("w", torch::ones({3}));
    for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong})
      register_buffer(c10::toString(type), torch::ones({2, 3}, type));
    register_buffer("transposed", torch::ones({3, 2}).t());
    register_buffer("flag", torch::zeros({1}, at::kBool));
  }
  at::Tensor forward(const at::Tensor& x) { return (x * w).sum(); }
  at::Tensor w;
};

class EngineBuffers : public ::testing::Test {
 protected:
  EngineBuffers() {
    options.adam_threads = 1;
    options.device = DeviceChoice::kCpu;
  }
  // On two ranks; every buffer is the rank's number times `scale`, plus one.
  static void set(nn::Module& model, int rank, double scale) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& buffer : model.buffers()) buffer.fill_(1 + rank * scale);
  }
  static void expect_all(nn::Module& model, double floats, double others) {
    for (const auto& item : model.named_buffers()) {
      if (item.key() == "flag") continue;
      const double expected = item.value().is_floating_point() ? floats : others;
      EXPECT_TRUE(item.value().eq(expected).all().item<bool>())
          << item.key() << " " << item.value();
    }
  }
  Options options;
};

TEST_F(EngineBuffers, AreThoseOfRankZeroToBeginWith) {
  on_ranks(3, [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<BuffersImpl>();
    set(*model, comm->rank() + 1, 2);
    const Engine engine(model, options, std::move(comm));
    expect_all(*model, 3, 3);
  });
}

TEST_F(EngineBuffers, BecomeTheirMeanOrTheLargest) {
  on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
    const int rank = comm->rank();
    auto model = std::make_shared<BuffersImpl>();
    Engine engine(model, options, std::move(comm));
    set(*model, rank, 3);
    model->named_buffers()["flag"].fill_(rank == 1);
    EXPECT_EQ(engine.averaged_buffer("Double")[0][0].item<double>(), 2.5);
    expect_all(*model, 1 + rank * 3, 1 + rank * 3);
    engine.average_buffers();
    expect_all(*model, 2.5, 4);
    EXPECT_TRUE(model->named_buffers()["flag"].item<bool>());
    EXPECT_THAT(error_of([&] { engine.averaged_buffer("nobody"); }), HasSubstr("nobody"));
  });
}

TEST_F(EngineBuffers, AreAveragedAtEachStepIfOneAsksForIt) {
  for (const bool averages : {false, true}) {
    options.average_buffers_each_step = averages;
    on_ranks(2, [&](std::unique_ptr<Ranks> comm) {
      const int rank = comm->rank();
      auto model = std::make_shared<BuffersImpl>();
      Engine engine(model, options, std::move(comm));
      set(*model, rank, 3);
      engine.backward(engine.forward(model, torch::ones({3})), 1);
      engine.step();
      averages ? expect_all(*model, 2.5, 4)
               : expect_all(*model, 1 + rank * 3, 1 + rank * 3);
    });
  }
}

TEST_F(EngineBuffers, OfEqualValueStayBitForBit) {
  // (x + x + x) / 3 need not be x.
  on_ranks(3, [&](std::unique_ptr<Ranks> comm) {
    auto model = std::make_shared<BuffersImpl>();
    Engine engine(model, options, std::move(comm));
    const torch::NoGradGuard no_grad;
    at::Tensor buffer = model->named_buffers()["Double"];
    buffer.copy_(values({2, 3}).to(at::kDouble).exp());
    const at::Tensor before = buffer.clone();
    engine.average_buffers();
    EXPECT_TRUE(torch::equal(buffer, before));
  });
}

}  // namespace
}  // namespace zero::testing::engine_state_test
