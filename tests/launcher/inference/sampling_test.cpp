#include "launcher/inference/sampling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace zero::launcher::sampling_test {
namespace {

using ::testing::ElementsAre;

int64_t choose(const std::vector<float>& logits, Sampling sampling, double uniform,
               const std::vector<int64_t>& text = {}) {
  return choose_token(logits, text, sampling, uniform);
}

// The tokens that can be drawn.
std::set<int64_t> drawn_from(const std::vector<float>& logits, Sampling sampling,
                             const std::vector<int64_t>& text = {}) {
  std::set<int64_t> tokens;
  for (int i = 0; i < 1000; ++i)
    tokens.insert(choose(logits, sampling, i / 1000.0, text));
  return tokens;
}

TEST(SamplingTest, GreedyTakesTheLikeliest) {
  EXPECT_EQ(choose({0, 3, 1, 3}, {.temperature = 0}, 0.999), 1);
}

TEST(SamplingTest, WhatIsNotFiniteIsTakenAndNotDrawnFrom) {
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(choose({0, infinite, 1}, {.temperature = 1}, 0.999), 1);
}

TEST(SamplingTest, NothingIsChosenWhereALogitIsNoNumber) {
  for (const std::vector<float>& logits : {std::vector<float>{NAN, 1, 2}, {1, NAN, 2}})
    for (const double temperature : {0.0, 1.0})
      EXPECT_EQ(choose(logits, {.temperature = temperature}, 0.5), kNoToken);
}

TEST(SamplingTest, TemperatureDrawsByProbability) {
  EXPECT_EQ(choose({0, 0, -1000}, {.temperature = 1}, 0.49), 0);
  EXPECT_EQ(choose({0, 0, -1000}, {.temperature = 1}, 0.51), 1);
  EXPECT_EQ(choose({0, 0, -1000}, {.temperature = 1}, 0.9999999999), 1);
}

TEST(SamplingTest, AHigherTemperatureEvensProbabilitiesOut) {
  EXPECT_EQ(choose({0, 2}, {.temperature = 2}, 0.26), 0);  // 1 : e
  EXPECT_EQ(choose({0, 2}, {.temperature = 2}, 0.28), 1);
  EXPECT_EQ(choose({0, 2}, {.temperature = 0.5}, 0.017), 0);  // 1 : e^4
  EXPECT_EQ(choose({0, 2}, {.temperature = 0.5}, 0.019), 1);
}

// Probabilities 0.1, 0.2, 0.3, 0.4.
const std::vector<float> kRising = {std::log(1.0F), std::log(2.0F), std::log(3.0F),
                                    std::log(4.0F)};

TEST(SamplingTest, FiltersKeepTheLikeliest) {
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_k = 1}), ElementsAre(3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_k = 2}), ElementsAre(2, 3));
  EXPECT_THAT(drawn_from({1, 5, 1, 1}, {.temperature = 1, .top_k = 2}),
              ElementsAre(0, 1, 2, 3));  // as likely as the second
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_p = 0.39}), ElementsAre(3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_p = 0.41}), ElementsAre(2, 3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_p = 0.71}),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_p = 0}), ElementsAre(3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .min_p = 0.51}), ElementsAre(2, 3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .min_p = 0.49}),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(drawn_from({1, 5, 1, 1}, {.temperature = 1, .min_p = 1}), ElementsAre(1));
}

TEST(SamplingTest, FiltersComeInTheOrderOfTransformers) {
  // Temperature first: with 0.25 the shares are 1, 16, 81 and 256 of 354.
  EXPECT_THAT(drawn_from(kRising, {.temperature = 0.25, .top_p = 0.72}), ElementsAre(3));
  EXPECT_THAT(drawn_from(kRising, {.temperature = 0.25, .min_p = 0.3}),
              ElementsAre(2, 3));
  // top_p of what top_k left: 3 and 4 of 7.
  EXPECT_THAT(drawn_from(kRising, {.temperature = 1, .top_k = 2, .top_p = 0.5}),
              ElementsAre(3));
}

TEST(SamplingTest, APenaltyIsOfTokensThatAreThere) {
  const Sampling sampling = {.repetition_penalty = 2, .temperature = 0};
  EXPECT_EQ(choose({3, 2, 1}, sampling, 0), 0);
  EXPECT_EQ(choose({3, 2, 1}, sampling, 0, {0, 0, 0}), 1);  // 1.5, however often
  EXPECT_EQ(choose({-1, -1.5F}, sampling, 0, {0}), 1);      // -2
}

// Where equal logits stand on the edge of top_p, which of them stays is a matter of
// order.
TEST(SamplingTest, FiltersAreThoseOfTransformers) {
  std::ifstream file(ZERO_SOURCE_DIR "/tests/references/sampling.json");
  for (const nlohmann::json& each : nlohmann::json::parse(file)) {
    const nlohmann::json& settings = each["settings"];
    const Sampling sampling = {
        .repetition_penalty = settings.value("repetition_penalty", 1.0),
        .temperature = settings.value("temperature", 1.0),
        .top_k = settings.value("top_k", int64_t{0}),
        .top_p = settings.value("top_p", 1.0),
        .min_p = settings.value("min_p", 0.0)};
    const std::vector<double> scores =
        filtered(each["logits"].get<std::vector<float>>(),
                 each["text"].get<std::vector<int64_t>>(), sampling);
    std::multiset<double> ours, theirs;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isfinite(scores[i])) ours.insert(scores[i]);
      const nlohmann::json& kept = each["filtered"][i];
      if (!kept.is_null()) theirs.insert(kept.get<double>());
    }
    ASSERT_EQ(ours.size(), theirs.size()) << each["settings"];
    for (auto one = ours.begin(), other = theirs.begin(); one != ours.end();
         ++one, ++other)
      EXPECT_NEAR(*one, *other, 1e-5) << each["settings"];
  }
}

}  // namespace
}  // namespace zero::launcher::sampling_test
