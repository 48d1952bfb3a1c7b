// Models that read each token once, beside the same models that read whole texts.
#include <gtest/gtest.h>

#include <random>

#include "examples/models/families.h"
#include "launcher/settings/chosen_model.h"
#include "tests/examples/language_model.h"
#include "tests/examples/references.h"
#include "tests/examples/tiny_models.h"
#include "zero/key_values.h"

namespace zero::reading_test {
namespace {

using nlohmann::json;

constexpr int64_t kVocab = 64, kPositions = 48;

std::map<std::string, json> configs() {
  std::map<std::string, json> configs = kTiny;
  for (const int window : {1, 2, 7, 11, 30})
    configs["mistral_window_" + std::to_string(window)] =
        with(kTiny.at("mistral"), {{"sliding_window", window}});
  configs["qwen2_windows"] = with(
      kTiny.at("qwen2"),
      {{"use_sliding_window", true}, {"sliding_window", 5}, {"max_window_layers", 1}});
  return configs;
}

class Reading : public ::testing::TestWithParam<std::string> {
 protected:
  Reading() {
    const json config = configs().at(GetParam());
    family_ = family_of(config);
    launcher::Settings settings;
    settings.seq_len = kPositions;
    shape_ =
        launcher::shape_of(family_, launcher::complete_config(family_, config), settings);
    model_ = as_language(family_.make(shape_));
    torch::manual_seed(3);
    for (at::Tensor& weight : model_->module()->parameters()) weight.normal_(0, 0.3);
    model_->module()->eval();
  }

  // The logits behind a text, read as a whole.
  at::Tensor whole(const std::vector<int64_t>& text) {
    return model_->next_logits(at::tensor(text, at::kLong).unsqueeze(0))[0];
  }

  void expect_same(const at::Tensor& logits, const std::vector<int64_t>& text) {
    EXPECT_LT(largest_difference(logits, whole(text)), 2e-5) << "of " << text.size();
  }

  const torch::NoGradGuard no_grad_;
  ModelFamily family_;
  ModelShape shape_;
  std::unique_ptr<LanguageModel> model_;
};

// Rows of any lengths, in chunks of any lengths, of which some give a row nothing.
TEST_P(Reading, GivesTheLogitsOfWholeTexts) {
  auto& reading = dynamic_cast<ReadingModel&>(*model_);
  std::mt19937_64 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int trial = 0; trial < 9; ++trial) {
    const int64_t rows = 1 + below(3);
    const bool is_even = trial % 3 == 0;
    std::vector<std::vector<int64_t>> texts(rows);
    const auto read = reading.begin_reading(rows);
    while (read->longest() < kPositions - 12) {
      const int64_t length = trial % 2 == 0 && read->longest() > 8 ? 1 : 1 + below(11);
      std::vector<int64_t> counts(rows, length);
      if (!is_even)
        for (int64_t& count : counts)
          count = read->longest() == 0 ? 1 + below(length) : below(length + 1);
      const at::Tensor tokens = torch::randint(kVocab, {rows, length}, at::kLong);
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < counts[row]; ++i)
          texts[row].push_back(tokens[row][i].item<int64_t>());
      read->begin(counts, length);
      const at::Tensor logits = reading.next_logits(tokens, *read);
      read->end();
      for (int64_t row = 0; row < rows; ++row)
        if (counts[row] > 0) expect_same(logits[row], texts[row]);
      if (HasFailure()) return;
    }
    for (int64_t row = 0; row < rows; ++row)
      EXPECT_EQ(read->lengths()[row], std::ssize(texts[row]));
  }
}

TEST_P(Reading, TakesWhatWasPlanned) {
  auto& reading = dynamic_cast<ReadingModel&>(*model_);
  for (const TextsAtOnce texts : {TextsAtOnce{2, 41}, {1, 6}, {3, kPositions}}) {
    const auto read = reading.begin_reading(texts.rows);
    read->expect_at_most(texts.tokens);
    for (int64_t left = texts.tokens, n = 3; left > 0; left -= n, n = std::min(n, left)) {
      read->begin(std::vector<int64_t>(texts.rows, n), n);
      reading.next_logits(torch::zeros({texts.rows, n}, at::kLong), *read);
      read->end();
    }
    EXPECT_EQ(read->longest(), texts.tokens);
    EXPECT_EQ(read->num_bytes(), family_.key_value_bytes(shape_, texts, 4));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Reading, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, config] : configs())
                             names.push_back(name);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

// As transformers takes a config that tells other things of rotation.
TEST(Neox, TurnsAQuarterOfEachHeadUnlessItIsTold) {
  const auto logits_of = [](json rope) {
    rope.update({{"rope_type", "default"}, {"rope_theta", 10000.0}});
    json config = kTiny.at("gpt_neox");
    config.erase("rotary_pct");
    config["num_attention_heads"] = 2;  // of 8 numbers, a quarter of which is a pair
    config["rope_parameters"] = rope;
    const ModelFamily family = family_of(config);
    launcher::Settings settings;
    settings.seq_len = kPositions;
    const auto model = as_language(family.make(
        launcher::shape_of(family, launcher::complete_config(family, config), settings)));
    torch::manual_seed(3);
    const torch::NoGradGuard no_grad;
    for (at::Tensor& weight : model->module()->parameters()) weight.normal_(0, 0.3);
    model->module()->eval();
    return model->next_logits(torch::arange(9).unsqueeze(0));
  };
  const at::Tensor untold = logits_of(json::object());
  EXPECT_TRUE(torch::equal(untold, logits_of({{"partial_rotary_factor", 0.25}})));
  EXPECT_FALSE(torch::equal(untold, logits_of({{"partial_rotary_factor", 1.0}})));
}

// A layer with a window keeps no more than it.
TEST(KeyValuesMemory, IsOfTheWindow) {
  KeyValues read(2, 1);
  const std::vector<int64_t> counts = {100, 100};
  read.begin(counts, 100);
  const at::Tensor x = torch::randn({2, 4, 100, 8});
  read.attend(0, x, x, x, 16);
  read.end();
  EXPECT_EQ(read.num_bytes(), 2 * 2 * 4 * 16 * 8 * 4);
  EXPECT_EQ(read.longest(), 100);
}

TEST(KeyValuesMemory, RefusesCountsThatDoNotFit) {
  KeyValues read(2, 1);
  EXPECT_THROW(read.begin(std::vector<int64_t>{1}, 1), std::exception);
  EXPECT_THROW(read.begin(std::vector<int64_t>{1, 3}, 2), std::exception);
  EXPECT_THROW(read.begin(std::vector<int64_t>{-1, 1}, 2), std::exception);
}

}  // namespace
}  // namespace zero::reading_test
