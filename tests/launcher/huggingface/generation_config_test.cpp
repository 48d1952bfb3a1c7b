#include "launcher/huggingface/generation_config.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/checkpoint/support.h"

namespace zero::launcher::generation_config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class EndsOfTexts : public checkpoint::testing::CheckpointTest {
 protected:
  EndsOfTexts() { std::filesystem::create_directories(run); }
  void write(const std::string& name, const std::string& text) {
    checkpoint::testing::write_file(run + "/" + name, text);
  }
};

TEST_F(EndsOfTexts, AreThoseOfConfigJsonWhereTheOtherFileNamesNone) {
  EXPECT_THAT(read_generation_config(run).ends, IsEmpty());
  write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(read_generation_config(run).ends, ElementsAre(7));
  write("generation_config.json", R"({"top_p": 0.5})");
  EXPECT_THAT(read_generation_config(run).ends, ElementsAre(7));
  write("generation_config.json", R"({"eos_token_id": [3, 5]})");
  EXPECT_THAT(read_generation_config(run).ends, ElementsAre(3, 5));
}

TEST_F(EndsOfTexts, WhatTheFileAsksForInVainIsTold) {
  write("generation_config.json",
        R"({"use_cache": true, "num_beams": 4, "typical_p": 1.0, "do_sample": false,
            "no_repeat_ngram_size": 3, "early_stopping": false, "suppress_tokens": []})");
  Settings settings;
  const auto is_given = [](const std::string&) { return false; };
  EXPECT_THAT(take_over(read_generation_config(run), true, is_given, settings),
              ElementsAre("generation_config.json: always the likeliest token, not used: "
                          "no_repeat_ngram_size num_beams"));
}

TEST_F(EndsOfTexts, HowTokensAreDrawnIsTakenOverWhole) {
  write("generation_config.json",
        R"({"do_sample": true, "temperature": 0.7, "top_k": 5, "top_p": 0.5,
            "min_p": 0.1, "repetition_penalty": 1.2})");
  Settings settings{.sample_greedy = true};
  const auto is_given = [](const std::string&) { return false; };
  EXPECT_THAT(take_over(read_generation_config(run), true, is_given, settings),
              ElementsAre("generation_config.json: repetition_penalty 1.2, temperature "
                          "0.7, top_k 5, top_p 0.5, min_p 0.1"));
  EXPECT_FALSE(settings.sample_greedy);
  EXPECT_EQ(settings.sample_temperature, 0.7);
  EXPECT_EQ(settings.sample_top_k, 5);
  EXPECT_EQ(settings.sample_top_p, 0.5);
  EXPECT_EQ(settings.sample_min_p, 0.1);
  EXPECT_EQ(settings.sample_repetition_penalty, 1.2);
}

TEST_F(EndsOfTexts, AValueThatNoTextCanHaveIsRefused) {
  write("generation_config.json", R"({"top_p": 2})");
  EXPECT_THAT(checkpoint::testing::error_of([&] { read_generation_config(run); }),
              HasSubstr("top_p is 2; allowed: a number from 0 to 1"));
  write("generation_config.json", R"({"top_k": 2.5})");
  EXPECT_THAT(checkpoint::testing::error_of([&] { read_generation_config(run); }),
              HasSubstr("top_k is 2.5; allowed: an integer"));
}

}  // namespace
}  // namespace zero::launcher::generation_config_test
