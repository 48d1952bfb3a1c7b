#include "launcher/settings/lora_setting.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "zero/errors.h"

namespace zero::launcher::lora_setting_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(LoraSetting, ReadsWhatIsGivenAndLeavesDefaults) {
  const LoraOptions all = parse_lora(
                              "r=4,alpha=6.5,dropout=0.25,targets=q_proj+mlp.*,rslora,"
                              "modules-to-save=lm_head+norm")
                              .value();
  EXPECT_EQ(all.r, 4);
  EXPECT_EQ(all.alpha, 6.5);
  EXPECT_EQ(all.dropout, 0.25);
  EXPECT_TRUE(all.rslora);
  EXPECT_THAT(all.targets, ElementsAre("q_proj", "mlp.*"));
  EXPECT_THAT(all.modules_to_save, ElementsAre("lm_head", "norm"));
  const LoraOptions few = parse_lora("r=16").value();
  EXPECT_EQ(few.alpha, 16);  // as r
  EXPECT_THAT(few.targets, ElementsAre("all-linear"));
  EXPECT_EQ(few.dropout, 0);
  EXPECT_FALSE(few.rslora);
  EXPECT_EQ(parse_lora("alpha=3,modules_to_save=a")->modules_to_save.size(), 1u);
}

TEST(LoraSetting, RefusesOtherForms) {
  for (const char* text : {"",
                           "r",
                           "r=",
                           "r=0",
                           "r=-1",
                           "r=1.5",
                           "r=70000",
                           "alpha=0",
                           "alpha=x",
                           "alpha=inf",
                           "dropout=1",
                           "dropout=-0.1",
                           "targets=",
                           "targets=a++b",
                           "rslora=true",
                           "rank=8",
                           "r=8,r=8",
                           "r=8,",
                           "r = 8",
                           "true",
                           "modules-to-save",
                           "\xff"})
    EXPECT_FALSE(parse_lora(text)) << text;
}

TEST(LoraSetting, GoesThroughJson) {
  for (const char* text : {"r=8", "r=4,alpha=2,targets=a+b,rslora,dropout=0.1",
                           "targets=a,modules-to-save=c"}) {
    const LoraOptions options = parse_lora(text).value();
    EXPECT_EQ(lora_from_json(to_json(options), "here"), options) << text;
  }
  LoraOptions with_patterns;
  with_patterns.ranks = {{"a.b", 3}};
  with_patterns.alphas = {{"a.b", 1.5}};
  EXPECT_EQ(lora_from_json(to_json(with_patterns), "here"), with_patterns);
  EXPECT_EQ(to_json(LoraOptions())["target_modules"], "all-linear");
}

TEST(LoraSetting, NamesAWrongValueOfAFile) {
  const auto error_of = [](const json& config) -> std::string {
    try {
      lora_from_json(config, "adapter_config.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({{"r", 0}}), HasSubstr("r is 0"));
  EXPECT_THAT(error_of({{"r", 2.5}}), HasSubstr("r is 2.5"));
  EXPECT_THAT(error_of({{"r", 1 << 20}}), HasSubstr("65536"));
  EXPECT_THAT(error_of({{"lora_alpha", "x"}}), HasSubstr("lora_alpha"));
  EXPECT_THAT(error_of({{"lora_alpha", -1}}), HasSubstr("alpha"));
  EXPECT_THAT(error_of({{"lora_dropout", 1}}), HasSubstr("dropout"));
  EXPECT_THAT(error_of({{"use_rslora", 1}}), HasSubstr("use_rslora"));
  EXPECT_THAT(error_of({{"target_modules", ".*q_proj"}}), HasSubstr("target_modules"));
  EXPECT_THAT(error_of({{"target_modules", {"q|v"}}}), HasSubstr("as they stand"));
  EXPECT_THAT(error_of({{"target_modules", json::array()}}), HasSubstr("targets"));
  EXPECT_THAT(error_of({{"rank_pattern", {{"^a", 2}}}}), HasSubstr("rank_pattern"));
  EXPECT_THAT(error_of({{"rank_pattern", {{"a", -2}}}}), HasSubstr("rank_pattern"));
  EXPECT_THAT(error_of({{"alpha_pattern", 3}}), HasSubstr("alpha_pattern"));
  EXPECT_THAT(error_of(3), HasSubstr("JSON object"));
}

}  // namespace
}  // namespace zero::launcher::lora_setting_test
