#include "launcher/inference/generate.h"

#include <gmock/gmock.h>

#include <functional>

#include "launcher/text/prompt.h"
#include "zero/errors.h"

namespace zero::launcher::generate_test {
namespace {

using ::testing::ElementsAre;

// Logits of a row by all of its tokens.
class Reader : public TextReader {
 public:
  using Logits = std::function<std::vector<float>(const TokenRow&)>;
  explicit Reader(Logits logits) : logits_(std::move(logits)) {}
  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override {
    texts.resize(more.size());
    std::vector<std::vector<float>> logits;
    num_read.push_back(0);
    for (size_t row = 0; row < more.size(); ++row) {
      texts[row].insert(texts[row].end(), more[row].begin(), more[row].end());
      num_read.back() += std::ssize(more[row]);
      logits.push_back(more[row].empty() ? std::vector<float>() : logits_(texts[row]));
    }
    return logits;
  }
  void read_nothing() override {}
  std::vector<TokenRow> texts;
  std::vector<int64_t> num_read;  // at each call

 private:
  const Logits logits_;
};

std::vector<float> counting(const TokenRow& text) {
  std::vector<float> logits(10, 0);
  logits[(text.back() + 1) % 10] = 1;
  return logits;
}
std::vector<float> flat(const TokenRow&) { return std::vector<float>(256, 0); }

constexpr int64_t kContext = 100;

Settings greedy(int64_t num_tokens) {
  return {.sample_tokens = num_tokens, .sample_temperature = 0};
}
Settings random(int64_t seed) {
  return {.seed = seed, .sample_tokens = 20, .sample_temperature = 1};
}

std::vector<TextEnd> made_by(Reader reader, const std::vector<TextBegin>& begins,
                             const Settings& settings, int64_t context = kContext) {
  return generate(begins, settings, context, reader);
}

TEST(Generate, ReadsEveryTokenOnce) {
  Reader reader(counting);
  const auto ends = generate({{{7, 8}}}, greedy(4), kContext, reader);
  EXPECT_THAT(ends[0].tokens, ElementsAre(9, 0, 1, 2));
  EXPECT_EQ(ends[0].finish, Finish::kTokens);
  EXPECT_THAT(reader.num_read, ElementsAre(2, 1, 1, 1));
}

TEST(Generate, LogitsThatAreNoNumbersEndIt) {
  const auto broken = [](const TokenRow& text) {
    return text.size() < 4 ? counting(text) : std::vector<float>(10, NAN);
  };
  const auto ends = made_by(Reader(broken), {{{7, 8}}}, greedy(9));
  EXPECT_THAT(ends[0].tokens, ElementsAre(9, 0));
  EXPECT_EQ(to_text(ends[0].finish), "nan");
  EXPECT_THAT(early_end(ends[0].finish, 9), ::testing::HasSubstr("NaN"));
  EXPECT_EQ(early_end(Finish::kEnd, 9), "");
}

TEST(Generate, AFullContextEndsIt) {
  const auto ends = made_by(Reader(counting), {{{7, 8}}}, greedy(9), 4);
  EXPECT_THAT(ends[0].tokens, ElementsAre(9, 0));
  EXPECT_EQ(ends[0].finish, Finish::kContext);
  EXPECT_EQ(to_text(ends[0].finish), "length");
  EXPECT_THROW(made_by(Reader(counting), {{{7, 8}}}, greedy(9), 2), Error);
}

TEST(Generate, EndsBeforeATokenThatEndsIt) {
  Reader reader(counting);
  std::vector<int64_t> told;
  const auto tell = [&](int64_t, int64_t token) {
    told.push_back(token);
    return false;
  };
  const auto ends = generate({{{7, 8}, 0, 0, {5, 2}}}, greedy(9), kContext, reader,
                             kNeverStopped, tell);
  EXPECT_THAT(ends[0].tokens, ElementsAre(9, 0, 1));
  EXPECT_EQ(ends[0].finish, Finish::kEnd);
  EXPECT_THAT(told, ElementsAre(9, 0, 1));
}

TEST(Generate, EndsWhereWhoIsToldSaysSo) {
  Reader reader(counting);
  const auto ends = generate({{{7}}}, greedy(9), kContext, reader, kNeverStopped,
                             [](int64_t, int64_t token) { return token == 0; });
  EXPECT_THAT(ends[0].tokens, ElementsAre(8, 9, 0));
  EXPECT_EQ(ends[0].finish, Finish::kStop);
}

TEST(Generate, LogProbabilitiesAreThoseOfTheLogits) {
  const Settings settings{.sample_tokens = 2,
                          .sample_temperature = 9,
                          .sample_top_k = 1,
                          .sample_repetition_penalty = 3,
                          .sample_log_probs = true};
  const auto logits = [](const TokenRow& text) {
    return std::vector<float>{text.size() == 1 ? 3.f : 0.f, 1, 0};
  };
  const auto end = made_by(Reader(logits), {{{2}}}, settings)[0];
  EXPECT_THAT(end.tokens, ElementsAre(0, 1)) << "the penalty decides";
  const double e = std::exp(1);
  EXPECT_NEAR(end.log_probs->at(0), 3 - std::log(e * e * e + e + 1), 1e-12);
  EXPECT_NEAR(end.log_probs->at(1), 1 - std::log(e + 2), 1e-12);
  EXPECT_FALSE(made_by(Reader(logits), {{{2}}}, greedy(2))[0].log_probs);
}

TEST(Generate, TextsAtOnceAreAsLongAsTheLongestAndTheContextAllows) {
  ModelShape shape;
  const auto tokens = [&](int64_t context) {
    shape.seq_len = context;
    const TextsAtOnce texts = texts_at_once({{{1, 2, 3}}, {{4}}}, greedy(5), shape);
    EXPECT_EQ(texts.rows, 2);
    return texts.tokens;
  };
  EXPECT_EQ(tokens(kContext), 8);
  EXPECT_EQ(tokens(6), 6);
}

TEST(Generate, RowsEndEachByItself) {
  const TokenRow end = {3};
  Reader reader(counting);
  const auto ends = generate({{{1}, 0, 0, end}, {{7, 8, 9}, 0, 0, end}, {{5}}}, greedy(6),
                             kContext, reader);
  EXPECT_THAT(ends[0].tokens, ElementsAre(2));
  EXPECT_THAT(ends[1].tokens, ElementsAre(0, 1, 2));
  EXPECT_THAT(ends[2].tokens, ElementsAre(6, 7, 8, 9, 0, 1));
  EXPECT_THAT(reader.num_read, ElementsAre(5, 3, 2, 2, 1, 1));
}

TEST(Generate, MayBeStoppedBeforeEachToken) {
  int num_asked = 0;
  Reader reader(counting);
  const auto ends = generate({{{0}, 0, 0, {7}}, {{7}, 1}}, greedy(9), kContext, reader,
                             [&] { return ++num_asked == 8; });
  EXPECT_EQ(ends[0].finish, Finish::kEnd);
  EXPECT_EQ(ends[1].finish, Finish::kBroken);
  EXPECT_EQ(std::ssize(reader.num_read), 7);
  EXPECT_EQ(to_text(Finish::kBroken), "broken");
}

TEST(Generate, APromptAndItsTextAreTheWhole) {
  const auto next = [](const TokenRow& tokens) {
    std::vector<float> logits(257, 0);
    logits[tokens.back() + 1] = 1;
    return logits;
  };
  Settings settings;
  settings.sample_tokens = 3;
  settings.sample_temperature = 0;
  ModelShape shape;
  shape.config["vocab_size"] = 257;
  shape.seq_len = 8;
  std::string prompt = "ab";
  const auto sample = [&](TextManner manner, int64_t count = 1) {
    Reader reader(next);
    const TextBegin begin{parse_prompt(prompt, manner.is_text, 257)};
    return make_texts(reader, std::vector(count, begin), settings, shape, manner);
  };
  const auto text = sample({.is_text = true});
  EXPECT_EQ(text.front().prompt, "ab");
  EXPECT_EQ(text.front().text, "cde");
  prompt = "7  8";
  const auto numbers = sample({});
  EXPECT_EQ(numbers.front().prompt, "7 8");
  EXPECT_EQ(numbers.front().text, " 9 10 11");
  EXPECT_EQ(sample({.is_stopped = [] { return true; }}).front().end.finish,
            Finish::kBroken);
  prompt = "ab";
  settings.sample_tokens = 5;
  settings.sample_stop = {"xx", "ef"};
  std::string shown;
  const auto ended = sample(
      {.is_text = true, .show = [&](const std::string& piece) { shown += piece; }}, 2);
  ASSERT_EQ(ended.size(), 2u);
  for (const GeneratedText& each : ended) {
    EXPECT_EQ(each.text, "cd");
    EXPECT_EQ(each.end.finish, Finish::kStop);
  }
  EXPECT_EQ(shown, "abcd") << "the first alone";
  shown.clear();
  sample({.is_text = true, .shows_prompt = false, .show = [&](const std::string& piece) {
            shown += piece;
          }});
  EXPECT_EQ(shown, "cd");
}

// As a tokenizer does whose first token of a text has no blank before it, and which tells
// of a token once it knows the next.
TEST(Generate, WhatFollowsATextIsWrittenAsItsRest) {
  Settings settings;
  settings.sample_tokens = 2;
  settings.sample_temperature = 0;
  ModelShape shape;
  shape.seq_len = 8;
  const auto text = [&](bool is_answered) {
    Reader reader(counting);
    const TextManner manner{
        .shows_prompt = false, .speech = [](int64_t) {
          return [begins = true,
                  waits = std::string()](std::optional<int64_t> token) mutable {
            std::string told = std::exchange(waits, "");
            if (token)
              waits = (std::exchange(begins, false) ? "" : " ") + std::to_string(*token);
            return told;
          };
        }};
    return make_texts(reader, {{{5, 6}, 0, 0, {}, is_answered}}, settings, shape, manner)
        .front()
        .text;
  };
  EXPECT_EQ(text(false), " 7 8");
  EXPECT_EQ(text(true), "7 8");
}

TEST(Generate, SeedPromptSampleAndPlaceDecide) {
  const auto drawn = [](int64_t seed, uint32_t prompt, uint32_t sample) {
    return made_by(Reader(flat), {{{0}, prompt, sample}}, random(seed))[0].tokens;
  };
  EXPECT_EQ(drawn(1, 0, 0), drawn(1, 0, 0));
  EXPECT_NE(drawn(1, 0, 0), drawn(2, 0, 0));
  EXPECT_NE(drawn(1, 0, 0), drawn(1, 1, 0));
  EXPECT_NE(drawn(1, 0, 0), drawn(1, 0, 1));
  const TokenRow some = drawn(1, 0, 0);
  EXPECT_NE(some[0], some[1]);
  // Whatever is made beside it.
  const auto both = made_by(Reader(flat), {{{0}, 3, 1}, {{0}, 0, 0}}, random(1));
  EXPECT_EQ(both[1].tokens, some);
}

TEST(Generate, PromptsAreTextOrNumbers) {
  EXPECT_THAT(parse_prompt("a\xff", true, 257), ElementsAre('a', 255));
  EXPECT_THAT(parse_prompt("12 50256", false, 50257), ElementsAre(12, 50256));
  EXPECT_THROW(parse_prompt("12 50257", false, 50257), Error);
  EXPECT_THROW(parse_prompt("Hello", false, 50257), Error);
  EXPECT_THROW(parse_prompt("", true, 257), Error);
  EXPECT_THAT(known({12, 256}, 257), ElementsAre(12, 256));
  EXPECT_THROW(known({12, 257}, 257), Error);
}

TEST(Generate, CharactersComeWholeAsTheyAreDrawn) {
  TokenWriter writer(/*is_text=*/true);
  EXPECT_EQ(writer.add('a'), "a");
  EXPECT_EQ(writer.add(0xe2), "");
  EXPECT_EQ(writer.add(0x82), "");
  EXPECT_EQ(writer.add(0xac), "\u20ac");
  EXPECT_EQ(writer.add(0xe2), "");
  EXPECT_EQ(writer.add('b'),
            "\xe2"
            "b")
      << "it was none";
  EXPECT_EQ(writer.add(0xff), "\xff");
  EXPECT_EQ(writer.add(0xc3), "");
  EXPECT_EQ(writer.finish(), "\xc3");
}

TEST(Generate, AnEndOfTextHasNoBytes) {
  const auto shown = [](const std::vector<int64_t>& tokens, bool is_text) {
    TokenWriter writer(is_text);
    std::string text;
    for (const int64_t token : tokens) text += writer.add(token);
    return text + writer.finish();
  };
  EXPECT_EQ(shown({'h', 'i', 256, 'x'}, true), "hix");
  EXPECT_EQ(shown({5, 300}, false), "5 300");
}

TEST(Generate, AStopIsFoundAcrossPiecesAndNotShown) {
  StoppedText text({"\n\nUser", "END"});
  EXPECT_EQ(text.add("a\n"), "a");
  EXPECT_EQ(text.add("b\n\nUs"), "\nb");
  EXPECT_FALSE(text.has_stopped());
  EXPECT_EQ(text.add("ing E"), "\n\nUsing ");
  EXPECT_EQ(text.add("N"), "");
  EXPECT_EQ(text.add("Dless"), "");
  EXPECT_TRUE(text.has_stopped());
  EXPECT_EQ(text.add("more"), "");
  StoppedText open({"END"});
  EXPECT_EQ(open.add("EN"), "");
  EXPECT_EQ(open.finish(), "EN");
}

}  // namespace
}  // namespace zero::launcher::generate_test
