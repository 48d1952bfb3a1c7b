// The families against transformers: logits, gradients, steps and continuations of the
// same weights. Bounds are a few times what fp32 rounding makes of these small models.
#include "tests/examples/references.h"

#include <gtest/gtest.h>

#include "zero/engine.h"
#include "zero/key_values.h"
#include "zero/unit.h"

namespace zero::references_test {
namespace {

using nlohmann::json;

class References : public ::testing::TestWithParam<std::string> {
 protected:
  const Reference reference_{GetParam()};
};

// (entries, vocab), at the places that the reference tells.
at::Tensor logits_at_places(const Reference& reference, LanguageModel& model) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> rows;
  const at::Tensor tokens = reference.tokens();
  for (const json& at : reference.numbers["logits_at"]) {
    const int64_t row = at[0], last = at[1];
    rows.push_back(
        model.next_logits(tokens.narrow(0, row, 1).narrow(1, 0, last + 1)).squeeze(0));
  }
  return torch::stack(rows);
}

TEST_P(References, LogitsAreThoseOfTransformers) {
  const auto model = reference_.model();
  model->module()->eval();
  const at::Tensor expected = to_tensor(reference_.numbers["logits"]);
  EXPECT_LT(largest_difference(logits_at_places(reference_, *model), expected), 2e-5);
}

// How far 16 bits lead from fp32 depends on where values are rounded: not much farther
// than with the original.
TEST_P(References, LogitsInBf16AreAsNearAsThoseOfTransformers) {
  const auto model = reference_.model();
  model->module()->eval();
  model->module()->to(torch::kBFloat16);
  const at::Tensor expected = to_tensor(reference_.numbers["logits"]);
  const at::Tensor theirs = to_tensor(reference_.numbers["logits_bf16"]);
  const at::Tensor ours = logits_at_places(reference_, *model).to(torch::kFloat64);
  const double our_error = (ours - expected).square().mean().sqrt().item<double>();
  const double their_error = (theirs - expected).square().mean().sqrt().item<double>();
  EXPECT_LT(our_error, 1.5 * their_error);
}

TEST_P(References, LossAndGradientsAreThoseOfTransformers) {
  const auto model = reference_.model();
  const at::Tensor loss = model->loss_sum(reference_.tokens(), reference_.targets());
  EXPECT_NEAR(loss.item<double>(), reference_.numbers["loss_sum"], 1e-4);
  (loss / reference_.targets().numel()).backward();
  double squares = 0;
  for (const auto& item : model->module()->named_parameters()) {
    if (!reference_.numbers["gradients"].contains(item.key())) continue;  // tied
    const json& expected = reference_.numbers["gradients"][item.key()];
    const at::Tensor gradient = item.value().grad();
    EXPECT_EQ(json(gradient.sizes().vec()), expected["shape"]) << item.key();
    const double norm = gradient.to(torch::kFloat64).norm().item<double>();
    squares += norm * norm;
    EXPECT_NEAR(norm, expected["norm"], 2e-5) << item.key();
    const at::Tensor places = to_tensor(expected["at"]).to(torch::kInt64);
    EXPECT_LT(largest_difference(gradient.flatten().index_select(0, places),
                                 to_tensor(expected["values"])),
              5e-6)
        << item.key();
  }
  const double norm = reference_.numbers["gradient_norm"];
  EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm);
}

// Through the engine: sharded weights, recomputation, our AdamW.
TEST_P(References, StepsAreThoseOfTorchsAdamW) {
  const auto model = reference_.model();
  Options options;
  options.optimizer = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  options.schedule.lr = 1e-3;
  options.clip = 1;
  Engine engine(model->module(), options);
  struct Loss {
    LanguageModel& model;
    at::Tensor forward(const at::Tensor& tokens, const at::Tensor& targets) {
      return model.loss_sum(tokens, targets);
    }
  } loss{*model};
  const json& training = reference_.numbers["training"];
  const int64_t num_targets = reference_.targets().numel();
  for (size_t step = 0; step < training["losses"].size(); ++step) {
    auto* callable = &loss;
    const at::Tensor sum =
        engine.forward(callable, reference_.tokens(), reference_.targets());
    EXPECT_NEAR(sum.item<double>() / static_cast<double>(num_targets),
                training["losses"][step], 2e-5)
        << step;
    engine.backward(sum, num_targets);
    const double norm = training["gradient_norms"][step];
    EXPECT_NEAR(engine.step().grad_norm, norm, 1e-4 * norm) << step;
  }
}

TEST_P(References, TheLikeliestContinuationIsThatOfTransformers) {
  const torch::NoGradGuard no_grad;
  const auto model = reference_.model();
  model->module()->eval();
  const json& greedy = reference_.numbers["greedy"];
  at::Tensor tokens = to_tensor(greedy["prompt"]).to(torch::kInt64).unsqueeze(0);
  for (size_t i = 0; i < greedy["tokens"].size(); ++i) {
    const at::Tensor next = model->next_logits(tokens).argmax(-1);
    const bool is_equal = next.item<int64_t>() == greedy["tokens"][i];
    EXPECT_TRUE(is_equal || greedy["margins"][i] < 1e-5) << i;
    if (!is_equal) break;
    tokens = at::cat({tokens, next.unsqueeze(0)}, 1);
  }
}

// The same where each token is read once.
TEST_P(References, AReadingContinuesAsTransformers) {
  const torch::NoGradGuard no_grad;
  const auto model = reference_.model();
  model->module()->eval();
  auto& reading = dynamic_cast<ReadingModel&>(*model);
  const json& greedy = reference_.numbers["greedy"];
  const auto read = reading.begin_reading(1);
  at::Tensor next = to_tensor(greedy["prompt"]).to(torch::kInt64).unsqueeze(0);
  for (size_t i = 0; i < greedy["tokens"].size(); ++i) {
    read->begin(std::vector{next.size(1)}, next.size(1));
    next = reading.next_logits(next, *read).argmax(-1).unsqueeze(0);
    read->end();
    const bool is_equal = next.item<int64_t>() == greedy["tokens"][i];
    EXPECT_TRUE(is_equal || greedy["margins"][i] < 1e-5) << i;
    if (!is_equal) break;
  }
}

// With a part of the logits at a time: the same but for rounding, gradients too.
TEST_P(References, ALossInChunksIsTheSame) {
  Reference chunked = reference_;
  chunked.shape.loss_chunk = 7;
  const auto whole = reference_.model(), parts = chunked.model();
  std::vector<std::map<std::string, at::Tensor>> gradients(2);
  std::vector<double> losses;
  for (LanguageModel* model : {whole.get(), parts.get()}) {
    const at::Tensor loss = model->loss_sum(reference_.tokens(), reference_.targets());
    loss.backward();
    losses.push_back(loss.item<double>());
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4);
  const auto expected = whole->module()->named_parameters();
  for (const auto& item : parts->module()->named_parameters())
    EXPECT_LT(largest_difference(item.value().grad(), expected[item.key()].grad()), 1e-4)
        << item.key();
}

INSTANTIATE_TEST_SUITE_P(Models, References, ::testing::ValuesIn(reference_names()),
                         [](const auto& info) { return info.param; });

TEST(LongReference, PositionsAboveEightThousandAreThoseOfTransformers) {
  const torch::NoGradGuard no_grad;
  Reference reference("llama_long");
  const auto model = reference.model();
  model->module()->eval();
  const at::Tensor i = torch::arange(8200);
  const at::Tensor tokens = ((i * i + 7919 * i) % 61).unsqueeze(0);
  double largest = 0;
  for (size_t k = 0; k < reference.numbers["logits"].size(); ++k) {
    const int64_t last = reference.numbers["logits_at"][k][1];
    const at::Tensor logits = model->next_logits(tokens.narrow(1, 0, last + 1));
    largest = std::max(
        largest,
        largest_difference(logits.squeeze(0), to_tensor(reference.numbers["logits"][k])));
  }
  EXPECT_LT(largest, 2e-5);
}

}  // namespace
}  // namespace zero::references_test
