// Modules that travel with a unit beside which they are registered, and units whose body
// is what is around them.
#include "engine/unit/model_scan.h"
#include "tests/engine/unit_contract.h"

namespace zero::testing::take_along_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace nn = torch::nn;

struct MixImpl : nn::Module {
  MixImpl() { w = register_parameter("w", values({3, 3}, -0.5, 0.8)); }
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(x.matmul(w)); }
  at::Tensor w;
};

// Two steps of a stream, each of a module of one's own and a unit, which comes first.
template <class First, class Second>
struct NetImpl : nn::Module {
  NetImpl(First one, Second other) : first(one), second(other) {
    for (auto [name, mix] : {std::pair("mix", &mix_1), {"last", &mix_2}})
      *mix = register_module(name, Unit<MixImpl>::make());
    register_module("first", first);
    register_module("second", second);
    scale = register_parameter("scale", values({3}, 0.5, 1));
    mix_1.take_along(first.ptr());
    mix_2.take_along(second.ptr());
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = mix_1.run(
        [this](const at::Tensor& x) { return mix_1->forward(first(x)); }, x * scale);
    const auto step = [this](const at::Tensor& x, at::Tensor y) {
      return std::pair(mix_2->forward(second(y)) + x, y);
    };
    const auto [z, same] = mix_2.run(step, x, y);
    return (z + same).pow(2).sum();
  }
  First first;
  Second second;
  Unit<MixImpl> mix_1, mix_2;
  at::Tensor scale;
};

using Norms = NetImpl<nn::LayerNorm, nn::Linear>;
std::shared_ptr<Norms> norms() {
  auto net =
      std::make_shared<Norms>(nn::LayerNorm(nn::LayerNormOptions({3})), nn::Linear(3, 3));
  const torch::NoGradGuard no_grad;
  double low = -0.3;
  for (at::Tensor param : net->parameters())
    param.copy_(values(param.sizes().vec(), low -= 0.05, 0.4));
  return net;
}

class TakeAlong : public UnitContract {};
INSTANTIATE_TEST_SUITE_P(, TakeAlong,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

TEST_P(TakeAlong, GradientsAreThoseOfThePlainModule) {
  for (const int64_t min_numel : {0, 1000}) {  // merged, too
    options.auto_wrap.min_numel = min_numel;
    expect_plain_numbers(norms,
                         [](auto forward, const at::Tensor& x) { return forward(x); });
  }
}

TEST_P(TakeAlong, ParametersAreGatheredWithTheUnit) {
  each_rank(norms, [&](Engine& engine, auto& net) {
    expect_planned_bytes(engine);
    EXPECT_THAT([&] { net->first->weight.sum(); },
                ::testing::ThrowsMessage<c10::Error>(
                    HasSubstr("first.weight is released: call the block")));
  });
}

using Dropped = NetImpl<nn::Dropout, nn::Dropout>;
TEST_P(TakeAlong, RecomputationRunsInTheModesOfTheForward) {
  const auto make = [] {
    return std::make_shared<Dropped>(nn::Dropout(0.5), nn::Dropout(0.5));
  };
  each_rank(make, [&](Engine& engine, auto& net) {
    const at::Tensor loss = engine.forward(net, values({4, 3}));
    net->eval();
    engine.backward(loss, 1);
    const at::Tensor gradient = engine.full_gradient("mix.w");
    EXPECT_GT(gradient.abs().sum().template item<double>(), 0);
  });
}

using BatchNormed = NetImpl<nn::BatchNorm1d, nn::BatchNorm1d>;
TEST_P(TakeAlong, AForwardCountsOnceInTheirBuffers) {
  const auto make = [] {
    return std::make_shared<BatchNormed>(nn::BatchNorm1d(3), nn::BatchNorm1d(3));
  };
  each_rank(make, [&](Engine& engine, auto& net) {
    const auto plain = make();
    plain->forward(values({4, 3}));
    engine.backward(engine.forward(net, values({4, 3})), 1);
    EXPECT_EQ(net->first->num_batches_tracked.template item<int64_t>(), 1);
    expect_near(net->second->running_mean, plain->second->running_mean);
  });
}

TEST(ScanModel, GivesParametersThatTravelToTheUnit) {
  const auto net = norms();
  const ScannedModel model = scan_model(*net);
  std::map<std::string, std::string> owners;
  for (const ParamDescription& param : model.params)
    owners[param.fqn] = model.units[param.units.at(0)].fqn;
  EXPECT_EQ(owners, (std::map<std::string, std::string>{{"first.bias", "mix"},
                                                        {"first.weight", "mix"},
                                                        {"last.w", "last"},
                                                        {"mix.w", "mix"},
                                                        {"scale", ""},
                                                        {"second.bias", "last"},
                                                        {"second.weight", "last"}}));
  EXPECT_THAT(model.modules.at(1), ElementsAre(net->mix_1.get(), net->first.get()));
}

TEST(ScanModel, RefusesWhatCannotTravel) {
  const auto refused = [](auto take_along) {
    const auto net = norms();
    take_along(*net);
    return error_of([&] { scan_model(*net); });
  };
  EXPECT_THAT(refused([](Norms& net) { net.mix_1.take_along(nn::Linear(3, 3).ptr()); }),
              AllOf(HasSubstr("a module that a unit takes along is not in the model"),
                    HasSubstr("LinearImpl with mix")));
  EXPECT_THAT(refused([](Norms& net) { net.mix_1.take_along(net.mix_2.ptr()); }),
              AllOf(HasSubstr("is a unit, or holds one"), HasSubstr("MixImpl with mix")));
  EXPECT_THAT(
      refused([](Norms& net) { net.mix_2.take_along(net.first.ptr()); }),
      AllOf(HasSubstr("travels with mix, too"), HasSubstr("LayerNormImpl with last")));
  EXPECT_THAT(refused([](Norms& net) { net.mix_1.take_along(nullptr); }),
              AllOf(HasSubstr("no module"), HasSubstr("take_along() of mix")));
  EXPECT_THAT(refused([](Norms& net) {
                const auto both =
                    net.register_module("both", nn::Sequential(nn::Linear(3, 3)));
                net.mix_1.take_along(both);
                net.mix_2.take_along(both->ptr(0));
              }),
              HasSubstr("travels with mix, too"));
}

}  // namespace
}  // namespace zero::testing::take_along_test
