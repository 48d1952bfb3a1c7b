// Gradients that go past a unit's results, and leaves of the caller's inside units.
#include "tests/engine/small_models.h"

namespace zero::testing::unit_borders_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace nn = torch::nn;

// Leaves something in a member: of its weights, or of its input alone.
struct AuxImpl : ScaleImpl {
  at::Tensor forward(const at::Tensor& x) {
    of_weights = (w * x).pow(2).sum();
    of_input = x.pow(2).sum();
    const at::Tensor y = (x * w).tanh();
    return takes ? y * *takes : y;
  }
  at::Tensor of_weights, of_input;
  std::optional<at::Tensor> takes;
};

struct AuxModelImpl : nn::Module {
  AuxModelImpl() {
    embed = register_parameter("embed", values({3, 3}));
    first = register_module("first", Unit<AuxImpl>::make());
    second = register_module("second", Unit<AuxImpl>::make());
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first(torch::matmul(x, embed));
    if (passes_on) second->takes = first->of_weights;
    if (passes_result) second->takes = y;
    y = second(y).pow(2).sum();
    return y + add_to(*this);
  }
  std::function<at::Tensor(AuxModelImpl&)> add_to = [](auto&) {
    return torch::zeros({});
  };
  bool passes_on = false, passes_result = false;
  at::Tensor embed;
  Unit<AuxImpl> first, second;
};

struct UnitBordersContract : UnitContract {
  // What a backward says of a loss with that in it; without it the step goes on.
  std::string complaint(std::function<at::Tensor(AuxModelImpl&)> add_to) {
    std::string said;
    each_rank([] { return std::make_shared<AuxModelImpl>(); },
              [&](Engine& engine, auto& model) {
                const auto nothing = std::exchange(model->add_to, add_to);
                const std::string own = error_of([&] {
                  engine.backward(engine.forward(model, values({4, 3})), 1);
                });
                if (engine.rank() == 0) said = own;
                model->add_to = nothing;
                engine.discard_gradients();
                engine.backward(engine.forward(model, values({4, 3})), 1);
                EXPECT_EQ(engine.step().num_targets, engine.size());
              });
    return said;
  }
};

TEST_P(UnitBordersContract, AResultInAMemberIsRefusedByTheParameterThatWouldLoseIt) {
  EXPECT_THAT(complaint([](auto& model) { return model.second->of_weights; }),
              AllOf(HasSubstr("second.w"), HasSubstr("return it")));
  EXPECT_THAT(complaint([](auto& model) { return model.first->of_weights * 2; }),
              HasSubstr("first.w"));
}

TEST_P(UnitBordersContract, AMemberMadeOfTheInputIsRefusedByTheUnit) {
  EXPECT_THAT(complaint([](auto& model) { return model.first->of_input; }),
              AllOf(HasSubstr("inputs of a unit"), HasSubstr("first")));
}

TEST_P(UnitBordersContract, AMemberThatIsDetachedMayBeRead) {
  EXPECT_EQ(complaint([](auto& model) { return model.first->of_weights.detach(); }),
            "no error");
}

TEST_P(UnitBordersContract, AUnitThatTakesAnothersMemberIsRefusedInForward) {
  each_rank([] { return std::make_shared<AuxModelImpl>(); },
            [&](Engine& engine, auto& model) {
              model->passes_on = true;
              EXPECT_THAT(error_of([&] {
                            engine.forward(model, values({4, 3}));
                          }),
                          HasSubstr("first.w"));
              model->passes_on = false;
              model->second->takes.reset();
              engine.backward(engine.forward(model, values({4, 3})), 1);
              EXPECT_FALSE(engine.step().skipped);
            });
}

// Recomputation would lose the gradient in silence: the first unit's call is not found.
TEST_P(UnitBordersContract, AUnitThatTakesAnothersResultUngivenIsRefusedInForward) {
  each_rank([] { return std::make_shared<AuxModelImpl>(); },
            [&](Engine& engine, auto& model) {
              model->passes_result = true;
              EXPECT_THAT(error_of([&] {
                            engine.forward(model, values({4, 3}));
                          }),
                          AllOf(HasSubstr("result of unit \"first\""),
                                HasSubstr("second"), HasSubstr("as an argument")));
              model->passes_result = false;
              model->second->takes = values({4, 3});
              engine.backward(engine.forward(model, values({4, 3})), 1);
              EXPECT_FALSE(engine.step().skipped);
            });
}

TEST_P(UnitBordersContract, ALeafInsideAUnitGetsTheGradientOfTheLossSum) {
  const at::Tensor prompt = values({3}, 1, 2).requires_grad_();
  auto plain = std::make_shared<AuxModelImpl>();
  plain->first->takes = prompt;
  (plain->forward(values({4, 3})) * 2).backward();
  for (const double nominal : {1.0, 8.0}) {
    options.nominal_targets = nominal;
    each_rank([] { return std::make_shared<AuxModelImpl>(); },
              [&](Engine& engine, auto& model) {
                const at::Tensor own = values({3}, 1, 2).requires_grad_();
                model->first->takes = own;
                engine.backward(engine.forward(model, values({4, 3})) * 2, 5);
                expect_near(own.grad(), prompt.grad());
              });
  }
}

INSTANTIATE_TEST_SUITE_P(, UnitBordersContract,
                         ::testing::Combine(::testing::Values(1, 2),
                                            ::testing::Values(Recompute::kUnit,
                                                              Recompute::kNone)));

}  // namespace
}  // namespace zero::testing::unit_borders_test
