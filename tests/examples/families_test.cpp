// What every family promises beside its formulas: first values, and dropout.
#include "examples/models/families.h"

#include <gtest/gtest.h>

#include "launcher/settings/chosen_model.h"
#include "tests/examples/language_model.h"
#include "tests/examples/references.h"
#include "tests/examples/tiny_models.h"

namespace zero::families_test {
namespace {

namespace nn = torch::nn;
using nlohmann::json;

class Families : public ::testing::TestWithParam<std::string> {
 protected:
  ModelShape shape(double dropout = 0) const {
    ModelShape shape = launcher::shape_of(
        family_, launcher::complete_config(family_, config_), launcher::Settings());
    shape.dropout = dropout;
    return shape;
  }
  // With weights that let every part be felt, the same for each.
  std::unique_ptr<LanguageModel> model(double dropout) const {
    auto model = as_language(family_.make(shape(dropout)));
    const torch::NoGradGuard no_grad;
    torch::manual_seed(3);
    for (at::Tensor& weight : model->module()->parameters()) weight.normal_(0, 0.3);
    return model;
  }

  const json config_ = kTiny.at(GetParam());
  const ModelFamily family_ = family_of(config_);
};

std::string to_text(const InitSpec& spec) {
  if (spec.kind == InitSpec::Kind::kConstant) return json(spec.a).dump();
  if (spec.kind != InitSpec::Kind::kNormal || spec.a != 0) return "something else";
  return "normal " + json(spec.b).dump();
}

// transformers' _init_weights, by names.
std::string first_value(const std::string& family, const std::string& fqn) {
  const auto has = [&](const char* part) { return fqn.find(part) != fqn.npos; };
  if (fqn.ends_with(".bias")) return "0.0";
  if (has("norm.") || has(".ln_")) return "1.0";
  // 0.3 / sqrt(2 * 2 layers)
  return family == "gpt2" && has(".c_proj.") ? "normal 0.15" : "normal 0.3";
}

TEST_P(Families, EveryParameterStartsAsTransformersStartsIt) {
  const InitRules rules = family_.init_rules(shape());
  const auto model = family_.make(shape());
  for (const auto& item : model->module()->named_parameters()) {
    const InitSpec spec = rule_for(rules, item.key());
    EXPECT_EQ(to_text(spec), first_value(family_.name, item.key())) << item.key();
    const json padding = config_.value("pad_token_id", json());
    const bool is_padded =
        !padding.is_null() && item.key() == "model.embed_tokens.weight";
    const int64_t row = !is_padded    ? -1
                        : padding < 0 ? 64 + padding.get<int64_t>()
                                      : padding.get<int64_t>();
    EXPECT_EQ(spec.zero_row_begin, is_padded ? row * 16 : -1) << item.key();
    EXPECT_EQ(spec.zero_row_end, is_padded ? row * 16 + 16 : -1) << item.key();
  }
}

TEST_P(Families, DropoutDropsInTrainingAlone) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = torch::randint(64, {2, 6}, torch::kLong);
  const auto plain = model(0), dropping = model(0.5);
  plain->module()->eval();
  const at::Tensor expected = plain->next_logits(tokens);
  dropping->module()->eval();
  EXPECT_EQ(largest_difference(dropping->next_logits(tokens), expected), 0);
  const auto modules_of = [](LanguageModel& model) {
    std::vector<std::pair<std::string, nn::DropoutImpl*>> modules;
    for (const auto& item : model.module()->named_modules()) {
      if (auto* each = item.value()->as<nn::DropoutImpl>())
        modules.emplace_back(item.key(), each);
    }
    return modules;
  };
  // Attention alone, then one place after the other.
  dropping->module()->train();
  for (const auto& [name, each] : modules_of(*dropping)) {
    EXPECT_EQ(each->options.p(), 0.5) << name;
    each->options.p(0);
  }
  EXPECT_GT(largest_difference(dropping->next_logits(tokens), expected), 1e-3);
  plain->module()->train();
  for (const auto& [name, each] : modules_of(*plain)) {
    each->options.p(0.5);
    EXPECT_GT(largest_difference(plain->next_logits(tokens), expected), 1e-3) << name;
    each->options.p(0);
  }
}

// Two rows of documents; the second row ends in what nobody learns.
struct Packed {
  static constexpr int64_t kLength = 12;
  const std::vector<std::vector<int64_t>> ends = {{3, 8, 9, 12}, {7, 12, 12, 12}};
  at::Tensor tokens = torch::randint(64, {2, kLength}, torch::kLong);
  at::Tensor targets = torch::randint(64, {2, kLength}, torch::kLong);

  Packed() { targets[1].narrow(0, 7, 5).fill_(-1); }
  at::Tensor document_ends() const {
    return torch::stack({torch::tensor(ends[0]), torch::tensor(ends[1])});
  }
  // Of each document, by itself: its tokens and targets.
  template <class Visit>
  void each(const Visit& visit) const {
    for (int64_t row = 0; row < 2; ++row) {
      int64_t begin = 0;
      for (const int64_t end : ends[row]) {
        if (end > begin)
          visit(tokens[row].slice(0, begin, end).unsqueeze(0),
                targets[row].slice(0, begin, end).unsqueeze(0));
        begin = end;
      }
    }
  }
};

at::Tensor packed_loss(LanguageModel& model, const Packed& packed) {
  return dynamic_cast<DocumentModel&>(model).packed_loss_sum(
      packed.tokens, packed.targets, packed.document_ends());
}

std::vector<at::Tensor> gradients_of(Model& model) {
  std::vector<at::Tensor> gradients;
  for (at::Tensor& weight : model.module()->parameters()) {
    gradients.push_back(weight.grad().clone());
    weight.mutable_grad() = at::Tensor();
  }
  return gradients;
}

TEST_P(Families, PackedDocumentsAreThoseAlone) {
  const auto model = this->model(0);
  const Packed packed;
  const at::Tensor loss = packed_loss(*model, packed);
  loss.backward();
  const std::vector<at::Tensor> together = gradients_of(*model);
  double alone = 0;
  packed.each([&](const at::Tensor& tokens, const at::Tensor& targets) {
    const at::Tensor loss = model->loss_sum(tokens, targets);
    loss.backward();
    alone += loss.item<double>();
  });
  EXPECT_NEAR(loss.item<double>(), alone, 1e-4);
  const std::vector<at::Tensor> apart = gradients_of(*model);
  for (size_t i = 0; i < apart.size(); ++i)
    EXPECT_LT((together[i] - apart[i]).abs().max().item<double>(), 2e-4) << i;
}

// Whatever a document says, its neighbour's loss has the same bits.
TEST_P(Families, APackedDocumentKnowsNoOther) {
  const auto model = this->model(0);
  Packed packed;
  packed.targets[0].narrow(0, 0, 3).fill_(-1);
  packed.targets[0].narrow(0, 8, 4).fill_(-1);
  const auto loss = [&] { return packed_loss(*model, packed).item<double>(); };
  const double before = loss();
  packed.tokens[0].narrow(0, 0, 3).copy_(torch::randint(64, {3}));
  packed.tokens[0].narrow(0, 8, 4).copy_(torch::randint(64, {4}));
  EXPECT_EQ(loss(), before);
  packed.tokens[0][3] = 63 - packed.tokens[0][3];
  EXPECT_NE(loss(), before);
}

INSTANTIATE_TEST_SUITE_P(Types, Families,
                         ::testing::Values("gpt2", "gptj", "gpt_neox", "llama", "mistral",
                                           "qwen2", "qwen3"),
                         [](const auto& info) { return info.param; });

launcher::Settings of_size(int64_t dim, int64_t heads) {
  launcher::Settings settings;
  settings.dim = dim, settings.heads = heads;
  return settings;
}

ModelFamily family_named(const std::string& name) {
  const ModelFamilies families = example_families();
  return *launcher::find_family(families, name);
}

// Sizes that --dim and --heads bring along: see launcher/README.md.
TEST(Sizes, OfAnotherWidthFollowIt) {
  const json llama = launcher::new_shape(family_named("llama"), of_size(640, 8)).config;
  EXPECT_EQ(llama["intermediate_size"], 1728);  // 640 * 8 / 3, up to a multiple of 64
  EXPECT_EQ(llama["num_key_value_heads"], 8);
  EXPECT_EQ(llama["head_dim"], 80);
  const json gptj = launcher::new_shape(family_named("gptj"), of_size(640, 8)).config;
  EXPECT_EQ(gptj["n_inner"], json());
  EXPECT_EQ(gptj["rotary_dim"], 64);
  EXPECT_EQ(
      launcher::new_shape(family_named("gptj"), of_size(60, 4)).config["rotary_dim"], 14)
      << "an even number, of 15 values of a head";
  launcher::Settings pythia = of_size(640, 8);
  pythia.preset = "pythia-70m";
  EXPECT_EQ(
      launcher::new_shape(family_named("gpt_neox"), pythia).config["intermediate_size"],
      2560)
      << "a number: transformers works none out from a null";
}

}  // namespace
}  // namespace zero::families_test
