#include "launcher/huggingface/generation_config.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/checkpoint/support.h"

namespace zero::launcher::generation_config_test {
namespace {

using testing::ElementsAre;
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

}  // namespace
}  // namespace zero::launcher::generation_config_test
