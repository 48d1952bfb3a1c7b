#include "launcher/inference/generate.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "zero/errors.h"

namespace zero::launcher::generate_test {
namespace {

using ::testing::ElementsAre;

TEST(Generate, GreedyTakesTheLikeliest) {
  const std::vector<float> logits = {0, 3, 1};
  EXPECT_EQ(choose_token(logits, 0, 0.999), 1);
}

TEST(Generate, WhatIsNotFiniteIsTakenAndNotDrawnFrom) {
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose_token(std::vector<float>{0, infinite, 1}, 1, 0.999), 1);
  EXPECT_EQ(choose_token(std::vector<float>{NAN, NAN, NAN}, 1, 0.999), 0);
}

TEST(Generate, TemperatureDrawsByProbability) {
  const std::vector<float> logits = {0, 0, -1000};
  EXPECT_EQ(choose_token(logits, 1, 0.49), 0);
  EXPECT_EQ(choose_token(logits, 1, 0.51), 1);
  EXPECT_EQ(choose_token(logits, 1, 0.9999999999), 1);
}

TEST(Generate, AHigherTemperatureEvensProbabilitiesOut) {
  const std::vector<float> logits = {0, 2};
  EXPECT_EQ(choose_token(logits, 2, 0.26), 0);  // 1 : e
  EXPECT_EQ(choose_token(logits, 2, 0.28), 1);
  EXPECT_EQ(choose_token(logits, 0.5, 0.017), 0);  // 1 : e^4
  EXPECT_EQ(choose_token(logits, 0.5, 0.019), 1);
}

TEST(Generate, FeedsTokensBackUpToTheContext) {
  std::vector<int64_t> lengths;
  const auto counting = [&](std::span<const int64_t> tokens) {
    lengths.push_back(std::ssize(tokens));
    std::vector<float> logits(10, 0);
    logits[(tokens.back() + 1) % 10] = 1;
    return logits;
  };
  const GenerateOptions options{
      .num_tokens = 4, .temperature = 0, .seed = 0, .context = 3};
  EXPECT_THAT(*generate({7, 8}, options, counting), ElementsAre(9, 0, 1, 2));
  EXPECT_THAT(lengths, ElementsAre(2, 3, 3, 3));
}

TEST(Generate, EndsBehindATokenThatEndsIt) {
  const auto counting = [](std::span<const int64_t> tokens) {
    std::vector<float> logits(10, 0);
    logits[(tokens.back() + 1) % 10] = 1;
    return logits;
  };
  const GenerateOptions options{
      .num_tokens = 9, .temperature = 0, .seed = 0, .context = 3, .ends = {5, 2}};
  std::vector<int64_t> told;
  const auto tell = [&](int64_t token) { told.push_back(token); };
  EXPECT_THAT(*generate({7, 8}, options, counting, kNeverStopped, tell),
              ElementsAre(9, 0, 1, 2));
  EXPECT_THAT(told, ElementsAre(9, 0, 1));
}

TEST(Generate, MayBeStoppedBeforeEachToken) {
  int num_asked = 0, num_made = 0;
  const auto flat = [&](std::span<const int64_t>) {
    ++num_made;
    return std::vector<float>(256, 0);
  };
  EXPECT_FALSE(generate({0}, {.num_tokens = 9}, flat, [&] { return ++num_asked == 4; }));
  EXPECT_EQ(num_made, 3);
}

TEST(Generate, APromptAndItsTextAreTheWhole) {
  const auto next = [](std::span<const int64_t> tokens) {
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
  settings.sample = "ab";
  const auto text = sample_text(next, settings, shape, true);
  EXPECT_EQ(text->prompt, "ab");
  EXPECT_EQ(text->text, "cde");
  settings.sample = "7  8";
  const auto numbers = sample_text(next, settings, shape, false);
  EXPECT_EQ(numbers->prompt, "7 8");
  EXPECT_EQ(numbers->text, " 9 10 11");
  EXPECT_FALSE(sample_text(next, settings, shape, false, [] { return true; }));
}

TEST(Generate, TheSeedDecides) {
  const auto flat = [](std::span<const int64_t>) { return std::vector<float>(256, 0); };
  const GenerateOptions options{
      .num_tokens = 20, .temperature = 1, .seed = 1, .context = 8};
  GenerateOptions other = options;
  other.seed = 2;
  EXPECT_EQ(generate({0}, options, flat), generate({0}, options, flat));
  EXPECT_NE(generate({0}, options, flat), generate({0}, other, flat));
}

TEST(Generate, PromptsAreTextOrNumbers) {
  EXPECT_THAT(parse_prompt("a\xff", true, 257), ElementsAre('a', 255));
  EXPECT_THAT(parse_prompt("12 50256", false, 50257), ElementsAre(12, 50256));
  EXPECT_THROW(parse_prompt("12 50257", false, 50257), Error);
  EXPECT_THROW(parse_prompt("Hello", false, 50257), Error);
  EXPECT_THROW(parse_prompt("", true, 257), Error);
}

TEST(Generate, CharactersComeWholeAsTheyAreDrawn) {
  TokenWriter writer(/*is_text=*/true);
  EXPECT_EQ(writer.add('a'), "a");
  EXPECT_EQ(writer.add(0xe2), "");
  EXPECT_EQ(writer.add(0x82), "");
  EXPECT_EQ(writer.add(0xac), "\u20ac");
  EXPECT_EQ(writer.add(0xe2), "");
  EXPECT_EQ(writer.add('b'), "\\xe2b") << "it was none";
  EXPECT_EQ(writer.add(0xff), "\\xff");
  EXPECT_EQ(writer.add(0xc3), "");
  EXPECT_EQ(writer.finish(), "\\xc3");
}

TEST(Generate, TokensAreToldOneByOne) {
  const auto flat = [](std::span<const int64_t>) { return std::vector<float>(256, 0); };
  const GenerateOptions options{
      .num_tokens = 5, .temperature = 1, .seed = 1, .context = 8};
  std::vector<int64_t> told;
  const auto drawn = generate({0}, options, flat, kNeverStopped,
                              [&](int64_t token) { told.push_back(token); });
  EXPECT_EQ(told, drawn);
}

TEST(Generate, TextEndsAtEndOfText) {
  const auto shown = [](const std::vector<int64_t>& tokens, bool is_text) {
    TokenWriter writer(is_text);
    std::string text;
    for (const int64_t token : tokens) text += writer.add(token);
    return text + writer.finish();
  };
  EXPECT_EQ(shown({'h', 'i', 256, 'x'}, true), "hi");
  EXPECT_EQ(shown({5, 300}, false), "5 300");
}

}  // namespace
}  // namespace zero::launcher::generate_test
