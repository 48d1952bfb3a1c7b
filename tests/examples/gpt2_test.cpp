// GPT-2 against its formulas, written out with plain tensor operations in fp64.
#include "examples/models/gpt2.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "examples/models/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/examples/language_model.h"
#include "tests/examples/references.h"
#include "zero/errors.h"

namespace zero::gpt2_test {
namespace {

namespace nn = torch::nn;

// Small, and no two of its numbers are alike; an epsilon that is felt.
Gpt2Config tiny(double dropout = 0) {
  Gpt2Config config;
  config.n_layer = 2;
  config.n_head = 3;
  config.n_embd = 12;
  config.n_positions = 7;
  config.vocab_size = 11;
  config.n_inner = 20;
  config.norm_epsilon = 0.1;
  config.dropout = dropout;
  return config;
}

// The formulas of Radford et al. 2019, as Hugging Face names their weights.
class Formulas {
 public:
  Formulas(const nn::Module& model, const Gpt2Config& config) : config_(config) {
    for (const auto& item : model.named_parameters())
      weights_[item.key()] = item.value().detach();
  }

  at::Tensor logits(const at::Tensor& tokens) const {  // (B, T) -> (B, T, V)
    const at::Tensor embedding = weight("transformer.wte.weight");
    const at::Tensor positions = weight("transformer.wpe.weight");
    at::Tensor x = embedding.index({tokens}) + positions.slice(0, 0, tokens.size(1));
    for (int64_t i = 0; i < config_.n_layer; ++i) {
      const std::string h = "transformer.h." + std::to_string(i) + ".";
      x = x + attention(norm(x, h + "ln_1"), h + "attn.");
      x = x + mlp(norm(x, h + "ln_2"), h + "mlp.");
    }
    return norm(x, "transformer.ln_f").matmul(embedding.t());
  }

 private:
  at::Tensor weight(const std::string& name) const { return weights_.at(name); }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return x.matmul(weight(name + ".weight")) + weight(name + ".bias");
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor variance = centred.square().mean(-1, true);
    return centred / (variance + config_.norm_epsilon).sqrt() * weight(name + ".weight") +
           weight(name + ".bias");
  }
  at::Tensor mlp(const at::Tensor& x, const std::string& name) const {
    const at::Tensor u = linear(x, name + "c_fc");
    const at::Tensor inner = std::sqrt(2 / M_PI) * (u + 0.044715 * u.pow(3));
    return linear(0.5 * u * (1 + inner.tanh()), name + "c_proj");
  }
  // One head and one query after the other, over the keys up to its own place.
  at::Tensor attention(const at::Tensor& x, const std::string& name) const {
    const int64_t width = config_.n_embd / config_.n_head;
    const at::Tensor qkv = linear(x, name + "c_attn");  // (B, T, 3 C)
    at::Tensor y = torch::zeros_like(x);
    for (int64_t head = 0; head < config_.n_head; ++head) {
      const auto part = [&](int64_t which) {
        const int64_t begin = which * config_.n_embd + head * width;
        return qkv.slice(2, begin, begin + width);  // (B, T, width)
      };
      for (int64_t t = 0; t < x.size(1); ++t) {
        const at::Tensor scores =
            (part(1).slice(1, 0, t + 1) * part(0).slice(1, t, t + 1)).sum(2, true);
        const at::Tensor weights = (scores / std::sqrt(width)).exp();  // (B, t + 1, 1)
        const at::Tensor mean =
            (weights * part(2).slice(1, 0, t + 1)).sum(1) / weights.sum(1);
        y.select(1, t).slice(1, head * width, (head + 1) * width).copy_(mean);
      }
    }
    return linear(y, name + "c_proj");
  }

  Gpt2Config config_;
  std::map<std::string, at::Tensor> weights_;
};

class Gpt2Test : public ::testing::Test {
 protected:
  Gpt2Test() { torch::manual_seed(1); }

  // In fp64, evaluating, and with weights that let every part be felt.
  static std::shared_ptr<Gpt2Impl> model(const Gpt2Config& config) {
    auto model = std::make_shared<Gpt2Impl>(config);
    torch::NoGradGuard no_grad;
    for (at::Tensor& weight : model->parameters()) weight.normal_(0, 0.5);
    model->to(torch::kDouble);
    model->eval();
    return model;
  }
  static at::Tensor tokens(int64_t batch = 2, int64_t length = 5) {
    return torch::randint(tiny().vocab_size, {batch, length}, torch::kLong);
  }
  static void expect_near(const at::Tensor& found, const at::Tensor& expected,
                          double tolerance = 1e-10) {
    ASSERT_EQ(found.sizes(), expected.sizes());
    EXPECT_LT((found - expected).abs().max().item<double>(), tolerance);
  }

  torch::NoGradGuard no_grad_;
};

TEST_F(Gpt2Test, LogitsFollowTheFormulas) {
  auto gpt2 = model(tiny());
  const Formulas formulas(*gpt2, tiny());
  for (const int64_t length : {1, 5, 7}) {
    const at::Tensor input = tokens(2, length);
    expect_near(gpt2->logits(input), formulas.logits(input));
  }
}

TEST_F(Gpt2Test, TheLossIsTheSumOfTheTargetsCrossEntropies) {
  auto gpt2 = model(tiny());
  const at::Tensor input = tokens(), targets = tokens();
  targets[0][1] = -1;  // not a target
  targets[1][4] = -1;
  const at::Tensor scores = Formulas(*gpt2, tiny()).logits(input);
  double expected = 0;
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < 5; ++t) {
      const auto target = targets[b][t].item<int64_t>();
      if (target < 0) continue;
      expected += (scores[b][t].exp().sum().log() - scores[b][t][target]).item<double>();
    }
  }
  const at::Tensor loss = gpt2->forward(input, targets);
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  EXPECT_NEAR(loss.item<double>(), expected, 1e-5 * expected);
}

TEST_F(Gpt2Test, TheMlpIsFourTimesAsWideUnlessToldOtherwise) {
  Gpt2Config config = tiny();
  EXPECT_EQ(config.inner(), 20);
  config.n_inner = 0;
  EXPECT_EQ(config.inner(), 48);
  EXPECT_EQ(model(config)->named_parameters()["transformer.h.0.mlp.c_fc.weight"].sizes(),
            (std::vector<int64_t>{12, 48}));
}

TEST_F(Gpt2Test, NothingIsDroppedInEvaluation) {
  auto gpt2 = model(tiny(0.5));
  const at::Tensor input = tokens();
  expect_near(gpt2->logits(input), Formulas(*gpt2, tiny()).logits(input));
}

TEST_F(Gpt2Test, EveryDropoutDropsInTraining) {
  const at::Tensor input = tokens();
  for (const std::string active :
       {"transformer.drop", "transformer.h.0.attn.resid_dropout",
        "transformer.h.1.mlp.dropout", "attention"}) {
    auto gpt2 = model(tiny(active == "attention" ? 0.5 : 0));
    int num_active = 0;
    for (const auto& item : gpt2->named_modules()) {
      auto* dropout = item.value()->as<nn::DropoutImpl>();
      if (!dropout) continue;
      dropout->options.p(item.key() == active ? 0.5 : 0);
      num_active += item.key() == active;
    }
    EXPECT_EQ(num_active, active == "attention" ? 0 : 1) << active;
    gpt2->train();
    const at::Tensor expected = Formulas(*gpt2, tiny()).logits(input);
    EXPECT_GT((gpt2->logits(input) - expected).abs().max().item<double>(), 1e-3)
        << active;
  }
}

TEST_F(Gpt2Test, StartsAsHuggingFaceStartsIt) {
  Gpt2Config config = tiny();
  config.n_layer = 8;
  const InitRules rules = gpt2_init_rules(config);
  for (const std::string name :
       {"transformer.wte.weight", "transformer.wpe.weight",
        "transformer.h.0.attn.c_attn.weight", "transformer.h.7.mlp.c_fc.weight"}) {
    const InitSpec spec = rule_for(rules, name);
    EXPECT_EQ(spec.kind, InitSpec::Kind::kNormal) << name;
    EXPECT_EQ(spec.a, 0) << name;
    EXPECT_EQ(spec.b, 0.02) << name;
  }
  for (const std::string name :
       {"transformer.h.0.attn.c_proj.weight", "transformer.h.7.mlp.c_proj.weight"}) {
    EXPECT_DOUBLE_EQ(rule_for(rules, name).b, 0.005) << name;  // 0.02 / sqrt(2 * 8)
  }
  for (const std::string name :
       {"transformer.h.0.ln_1.weight", "transformer.h.0.ln_2.weight",
        "transformer.ln_f.weight"}) {
    EXPECT_EQ(rule_for(rules, name).kind, InitSpec::Kind::kConstant) << name;
    EXPECT_EQ(rule_for(rules, name).a, 1) << name;
  }
  for (const std::string name :
       {"transformer.ln_f.bias", "transformer.h.0.mlp.c_proj.bias"}) {
    EXPECT_EQ(rule_for(rules, name).kind, InitSpec::Kind::kConstant) << name;
    EXPECT_EQ(rule_for(rules, name).a, 0) << name;
  }
}

TEST_F(Gpt2Test, RefusesNumbersThatDoNotFitTogether) {
  EXPECT_NO_THROW(Gpt2Impl{tiny()});
  for (int64_t Gpt2Config::*member :
       {&Gpt2Config::n_layer, &Gpt2Config::n_head, &Gpt2Config::n_embd,
        &Gpt2Config::vocab_size, &Gpt2Config::n_positions}) {
    Gpt2Config config = tiny();
    config.*member = 0;
    EXPECT_THROW(Gpt2Impl{config}, Error);
  }
  Gpt2Config config = tiny();
  config.n_head = 5;
  EXPECT_THROW(Gpt2Impl{config}, Error);
  config = tiny();
  config.loss_chunk = -1;
  EXPECT_THROW(Gpt2Impl{config}, Error);
}

class Gpt2FamilyTest : public Gpt2Test {
 protected:
  const ModelFamily family_ = example_families().front();

  ModelShape shape_with(const launcher::Settings& settings) const {
    return launcher::new_shape(family_, settings);
  }
};

TEST_F(Gpt2FamilyTest, TheNextTokensLogitsAreThoseOfTheLastPlace) {
  launcher::Settings settings;
  settings.layers = 2, settings.dim = 12, settings.heads = 3, settings.vocab = 11;
  settings.seq_len = 7;
  const ModelShape shape = shape_with(settings);
  auto language_model = as_language(family_.make(shape));
  auto& gpt2 = dynamic_cast<Gpt2Impl&>(*language_model->module());
  for (at::Tensor& weight : gpt2.parameters()) weight.normal_(0, 0.5);
  gpt2.eval();
  const at::Tensor input = tokens(2, 4);
  expect_near(language_model->next_logits(input), gpt2.logits(input).select(1, 3), 1e-4);
  const at::Tensor targets = tokens(2, 4);
  EXPECT_EQ(language_model->loss_sum(input, targets).item<float>(),
            gpt2.forward(input, targets).item<float>());
}

// Sizes in inputs of a block, which are those of the residual stream.
TEST_F(Gpt2FamilyTest, BlocksThatAreNotRecomputedKeepTheirActivations) {
  launcher::Settings settings;
  settings.preset = "gpt2-124m";  // 12 layers
  const ModelShape shape = shape_with(settings);
  const auto bytes = [&](int64_t every, bool offloads = false) {
    return family_.activation_bytes(
        shape,
        {.rows = 1, .rows_in_units = 1, .recompute_every = every, .offloads = offloads});
  };
  const int64_t input = shape.seq_len * shape.dim() * 4;
  EXPECT_LT(bytes(1).computed, bytes(2).computed);
  EXPECT_LT(bytes(2).computed, bytes(3).computed);
  EXPECT_LT(bytes(12).computed, bytes(0).computed);
  EXPECT_EQ(bytes(13).computed, bytes(12).computed) << "the first one alone";
  // From 8 kept blocks to 6, and from 4 inputs to 6.
  const int64_t block = bytes(0).computed - bytes(12).computed + input;
  EXPECT_NEAR(static_cast<double>(bytes(3).computed - bytes(2).computed),
              static_cast<double>(2 * block - 2 * input), 2);
  EXPECT_EQ(bytes(2).offloaded, 0);
  EXPECT_EQ(bytes(2, true).offloaded, 6 * input);
  EXPECT_EQ(bytes(2).computed - bytes(2, true).computed, 4 * input);
  EXPECT_EQ(bytes(1, true).offloaded, 12 * input);
}

// A CPU's product of 16 bits has no longer result, so that the gradient is widened.
TEST_F(Gpt2FamilyTest, AChunkedLossKeepsScoresOf16Bits) {
  launcher::Settings settings;
  settings.preset = "gpt2-124m";
  ModelShape shape = shape_with(settings);
  shape.loss_chunk = 1024;
  const auto bytes = [&](int64_t element_bytes, bool on_gpu) {
    return family_
        .activation_bytes(shape, {.rows = 1,
                                  .rows_in_units = 1,
                                  .element_bytes = element_bytes,
                                  .on_gpu = on_gpu})
        .computed;
  };
  EXPECT_EQ(bytes(2, false) - bytes(2, true), 4 * 1024 * shape.vocab());
  EXPECT_EQ(bytes(4, false), bytes(4, true));
}

// A tied head's own, the embedding's and their sum, beside two of the stream's size.
TEST_F(Gpt2FamilyTest, OfFewTokensTheEmbeddingsGradientsTakeMost) {
  launcher::Settings settings;
  settings.layers = 1, settings.dim = 64, settings.heads = 2;
  settings.vocab = 5000, settings.seq_len = 8;
  const ModelShape shape = shape_with(settings);
  const int64_t weights = 5000 * 64 * 4, stream = 8 * 64 * 4;
  EXPECT_EQ(family_.activation_bytes(shape, {.rows = 1, .rows_in_units = 1}).computed,
            3 * weights + 2 * stream);
}

TEST_F(Gpt2FamilyTest, AShapeReachesTheModel) {
  launcher::Settings settings;
  settings.vocab = 300, settings.ffn_dim = 100, settings.seq_len = 9;
  settings.dropout = 0.25;
  const ModelShape shape = shape_with(settings);
  const auto language_model = as_language(family_.make(shape));
  const auto weights = language_model->module()->named_parameters();
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(weights["transformer.wte.weight"].sizes(), (Sizes{300, 384}));
  EXPECT_EQ(weights["transformer.wpe.weight"].sizes(), (Sizes{9, 384}));
  EXPECT_EQ(weights["transformer.h.5.mlp.c_fc.weight"].sizes(), (Sizes{384, 100}));
  auto& gpt2 = dynamic_cast<Gpt2Impl&>(*language_model->module());
  const auto drop = gpt2.named_modules()["transformer.drop"];
  EXPECT_EQ(drop->as<nn::DropoutImpl>()->options.p(), 0.25);
  EXPECT_DOUBLE_EQ(rule_for(family_.init_rules(shape), "a.c_proj.weight").b,
                   0.02 / std::sqrt(12.0));
}

}  // namespace
}  // namespace zero::gpt2_test
