#include <gtest/gtest.h>

#include "launcher/commands/generate.h"
#include "launcher/settings/setting_table.h"
#include "tests/launcher/settings/configs.h"

namespace zero::launcher::generate_many_test {
namespace {

std::string hash_with(const std::string& key, const std::string& value) {
  Settings settings;
  EXPECT_TRUE(find_setting(key)->assign(settings, {value})) << key;
  return hash_of_settings(settings, {}, "");
}

TEST(HashOfSettings, KnowsAllThatChangesAText) {
  const std::string before = hash_of_settings({}, {}, "");
  const std::pair<const char*, const char*> changes[] = {
      {"seed", "5"},
      {"sample_tokens", "5"},
      {"sample_temperature", "0.5"},
      {"sample_greedy", "true"},
      {"sample_top_k", "5"},
      {"sample_top_p", "0.5"},
      {"sample_min_p", "0.5"},
      {"sample_repetition_penalty", "2"},
      {"sample_stop", "a"},
      {"sample_ignore_eos", "true"},
      {"sample_log_probs", "true"},
      {"sample_batch", "5"},
      {"dtype", "bf16"},
      {"separator", "a"},
      {"end_of_turn", "a"},
      {"special_in_content", "text"},
      {"device", "cpu"},
      {"tf32", "true"}};
  for (const auto& [key, value] : changes)
    EXPECT_NE(hash_with(key, value), before) << key;
  EXPECT_EQ(hash_with("sample_count", "5"), before) << "there may be more of them";
  EXPECT_EQ(hash_with("threads", "5"), before);
}

TEST(HashOfSettings, KnowsTheModelsShapeAndTheTokenizer) {
  const TempFolder folder;
  const std::string one = folder.write("one", "1"), other = folder.write("other", "2");
  ModelShape shape;
  const auto hash = [&](const std::string& tokenizer) {
    return hash_of_settings({}, shape, tokenizer);
  };
  const std::string before = hash(one);
  EXPECT_NE(hash(other), before);
  EXPECT_NE(hash(""), before);
  shape.seq_len = 5;
  EXPECT_NE(hash(one), before);
  shape = {};
  shape.config["n_layer"] = 5;
  EXPECT_NE(hash(one), before);
}

}  // namespace
}  // namespace zero::launcher::generate_many_test
