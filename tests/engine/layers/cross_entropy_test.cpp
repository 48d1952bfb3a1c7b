// cross_entropy() beside LibTorch's.
#include <gtest/gtest.h>

#include "engine/layers/torch/eager.h"
#include "tests/engine/layers/layer_story.h"
#include "zero/layers.h"

namespace zero::testing::cross_entropy_test {
namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};

// Logits, and targets of which a fourth is ignored.
struct Scores {
  at::Tensor logits, targets;
};

Scores some_scores(int64_t rows, int64_t classes, at::ScalarType type) {
  at::manual_seed(11);
  const at::Tensor targets = at::randint(classes, {rows}, at::kLong);
  return {(at::randn({rows, classes}, at::kDouble) * 3).to(type),
          targets.masked_fill(at::rand({rows}) < 0.25, -1)};
}

using Loss = at::Tensor (*)(const at::Tensor& logits, const at::Tensor& targets);

// Of the loss times a third.
at::Tensor gradient(Loss loss, const Scores& scores) {
  const at::Tensor logits = scores.logits.detach().requires_grad_();
  const at::Tensor sum = loss(logits, scores.targets);
  return torch::autograd::grad({sum}, {logits}, {at::full_like(sum, 1. / 3)})[0];
}

TEST(CrossEntropy, IsNoFartherFromTheTruthThanTheExpression) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto& [rows, classes] :
         {std::pair(300, 40), {1, 1}, {5, 31}, {7, 1000}, {40, 5003}, {3, 50000}}) {
      const Scores scores = some_scores(rows, classes, type);
      const Scores wide = {scores.logits.to(at::kDouble), scores.targets};
      const auto expect_near = [&](const at::Tensor& ours, const at::Tensor& eager,
                                   const at::Tensor& exact) {
        EXPECT_EQ(ours.scalar_type(), eager.scalar_type());
        EXPECT_EQ(ours.sizes(), eager.sizes());
        EXPECT_LE(error_of(ours, exact), 1.5 * error_of(eager, exact) + 1e-30)
            << type << " " << rows << " x " << classes;
      };
      expect_near(gradient(cross_entropy, scores), gradient(eager::cross_entropy, scores),
                  gradient(eager::cross_entropy, wide));
      const at::Tensor exact = eager::cross_entropy(wide.logits, wide.targets);
      EXPECT_EQ(cross_entropy(scores.logits, scores.targets).item<float>(),
                static_cast<float>(exact.item<double>()));
    }
  }
}

TEST(CrossEntropy, GradientsAreTheSlopes) {
  const Scores scores = some_scores(4, 5, at::kDouble);
  const at::Tensor found = gradient(cross_entropy, scores);
  for (int64_t i = 0; i < scores.logits.numel(); ++i) {
    const auto loss = [&](double by) {
      at::Tensor moved = scores.logits.clone();
      moved.view({-1})[i] += by;
      return cross_entropy(moved, scores.targets).item<double>() / 3;
    };
    EXPECT_NEAR(found.view({-1})[i].item<double>(), (loss(1e-5) - loss(-1e-5)) / 2e-5,
                1e-8);
  }
}

TEST(CrossEntropy, ThreadsAndGraphsChangeNoBit) {
  const int before = at::get_num_threads();
  for (const at::ScalarType type : kTypes) {
    const Scores scores = some_scores(700, 200, type);
    std::vector<Tensors> found;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      const at::Tensor leaf = scores.logits.detach().requires_grad_();
      found.push_back({gradient(cross_entropy, scores),
                       cross_entropy(scores.logits, scores.targets)});
      EXPECT_TRUE(same_bits(cross_entropy(leaf, scores.targets).detach(), found[0][1]));
    }
    EXPECT_TRUE(same_bits(found[0], found[1])) << type;
  }
  at::set_num_threads(before);
}

TEST(CrossEntropy, TakesAnyLayout) {
  const Scores flat = some_scores(24, 10, at::kFloat);
  const Scores deep = {flat.logits.view({4, 6, 10}), flat.targets.view({4, 6})};
  const Scores turned = {deep.logits.transpose(0, 1).contiguous().transpose(0, 1),
                         deep.targets.transpose(0, 1).contiguous().transpose(0, 1)};
  for (const Scores& each : {deep, turned}) {
    EXPECT_TRUE(same_bits(cross_entropy(each.logits, each.targets),
                          cross_entropy(flat.logits, flat.targets)));
    EXPECT_TRUE(same_bits(gradient(cross_entropy, each).reshape({24, 10}),
                          gradient(cross_entropy, flat)));
  }
  const Scores row = {flat.logits[0], at::full({}, 3, at::kLong)};
  EXPECT_TRUE(at::allclose(cross_entropy(row.logits, row.targets),
                           eager::cross_entropy(row.logits, row.targets)));
}

TEST(CrossEntropy, WhereAllIsIgnoredThereIsNothing) {
  Scores scores = some_scores(3, 8, at::kFloat);
  scores.targets.fill_(-1);
  EXPECT_EQ(cross_entropy(scores.logits, scores.targets).item<float>(), 0);
  EXPECT_TRUE(same_bits(gradient(cross_entropy, scores), at::zeros({3, 8})));
  const Scores none = some_scores(0, 8, at::kFloat);
  EXPECT_EQ(cross_entropy(none.logits, none.targets).item<float>(), 0);
  EXPECT_EQ(gradient(cross_entropy, none).sizes(), none.logits.sizes());
}

TEST(CrossEntropy, TargetsThatAreNoClassAreRefused) {
  const at::Tensor logits = at::zeros({2, 8});
  for (const int64_t target : {8, -2, -100})
    EXPECT_THROW(cross_entropy(logits, at::full({2}, target)), c10::IndexError);
  EXPECT_ANY_THROW(cross_entropy(logits, at::zeros({3}, at::kLong)));
}

// A class that is masked has no share, and a logit that is no number spoils its row.
TEST(CrossEntropy, TakesWhatIsNotFinite) {
  Scores scores = some_scores(3, 40, at::kFloat);
  scores.targets = at::tensor({1, 2, 3}, at::kLong);
  scores.logits[0].slice(0, 30) = -INFINITY;
  scores.logits[1][5] = NAN;
  const at::Tensor ours = gradient(cross_entropy, scores);
  EXPECT_TRUE(at::allclose(ours, gradient(eager::cross_entropy, scores), 2e-6, 1e-7,
                           /*equal_nan=*/true));
  EXPECT_TRUE(ours[0].slice(0, 30).eq(0).all().item<bool>());
  EXPECT_TRUE(std::isnan(cross_entropy(scores.logits, scores.targets).item<float>()));
}

TEST(CrossEntropy, TheLargestLogitIsFoundAndNoneBesideANan) {
  const at::Tensor logits = torch::tensor(
      {{1.0F, 3.0F, 2.0F}, {5.0F, 5.0F, 1.0F}, {NAN, 1.0F, 2.0F}, {0.0F, NAN, 2.0F}});
  const auto hits = [&](std::vector<int64_t> targets) {
    return is_largest(logits, torch::tensor(targets)).to(torch::kInt64);
  };
  EXPECT_TRUE(hits({1, 0, 0, 1}).equal(torch::tensor({1, 1, 0, 0})));
  EXPECT_TRUE(hits({2, 1, 2, 2}).equal(torch::tensor({0, 0, 0, 0})));
}

TEST(CrossEntropy, HasSecondDerivatives) {
  const Scores scores = some_scores(4, 6, at::kDouble);
  const auto second = [&](Loss loss) {
    const at::Tensor logits = scores.logits.detach().requires_grad_();
    const at::Tensor first = torch::autograd::grad(
        {loss(logits, scores.targets)}, {logits}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {logits})[0];
  };
  EXPECT_TRUE(at::allclose(second(cross_entropy), second(eager::cross_entropy), 1e-11));
}

TEST(CrossEntropy, TakesTensorsWithoutMemory) {
  const at::Tensor logits = at::zeros({3, 8}, at::kMeta);
  EXPECT_EQ(
      cross_entropy(logits, at::zeros({3}, logits.options().dtype(at::kLong))).dim(), 0);
}

// --- the logits' memory

class LogitsOf : public ::testing::Test {
 protected:
  // A loss of logits, whose gradient shows where it lies.
  at::Tensor loss_of(const at::Tensor& logits) {
    logits.register_hook([this](const at::Tensor& grad) { lies_at = grad.data_ptr(); });
    return cross_entropy(logits, scores.targets);
  }
  at::Tensor expected() const { return gradient(cross_entropy, scores) * 3; }

  const Scores scores = some_scores(6, 50, at::kFloat);
  const at::Tensor leaf = scores.logits.clone().requires_grad_();
  void* lies_at = nullptr;
};

TEST_F(LogitsOf, NobodyElseBecomeTheGradient) {
  at::Tensor logits = leaf * 1;
  const void* memory = logits.data_ptr();
  const at::Tensor loss = loss_of(logits);
  logits.reset();
  loss.backward();
  EXPECT_EQ(lies_at, memory);
  EXPECT_TRUE(at::allclose(leaf.grad(), expected(), 1e-5, 1e-7));
  EXPECT_TRUE(same_bits(leaf.detach(), scores.logits));
}

TEST_F(LogitsOf, SomebodyStayAsTheyAre) {
  const at::Tensor logits = leaf * 1;
  loss_of(logits).backward();
  EXPECT_NE(lies_at, logits.data_ptr());
  EXPECT_TRUE(same_bits(logits.detach(), scores.logits));
}

TEST_F(LogitsOf, SomebodyWithAViewStayAsTheyAre) {
  at::Tensor logits = leaf * 1;
  const at::Tensor view = logits.detach().narrow(0, 1, 2);
  const at::Tensor loss = loss_of(logits);
  logits.reset();
  loss.backward();
  EXPECT_TRUE(same_bits(view, scores.logits.narrow(0, 1, 2)));
}

TEST_F(LogitsOf, AnotherNodeStayAsTheyAre) {
  at::Tensor logits = leaf * 1;
  const at::Tensor loss = loss_of(logits) + logits.square().sum() / 2;
  logits.reset();
  loss.backward();
  EXPECT_TRUE(at::allclose(leaf.grad(), expected() + scores.logits, 1e-5, 1e-6));
}

TEST_F(LogitsOf, AGraphThatIsKeptGiveTheSameTwice) {
  at::Tensor logits = leaf * 1;
  const at::Tensor loss = loss_of(logits);
  logits.reset();
  const auto grad = [&](bool keeps) {
    return torch::autograd::grad({loss}, {leaf}, {}, keeps)[0];
  };
  const at::Tensor first = grad(true);
  EXPECT_TRUE(same_bits(grad(true), first));
  EXPECT_TRUE(same_bits(grad(false), first));
}

}  // namespace
}  // namespace zero::testing::cross_entropy_test
