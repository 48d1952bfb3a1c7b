#include "launcher/huggingface/adapter_folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/error.h"
#include "checkpoint/safetensors_writer.h"
#include "launcher/model.h"
#include "launcher/settings/lora_setting.h"
#include "tests/checkpoint/support.h"
#include "zero/errors.h"

namespace zero::launcher::adapter_folder_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class AdapterFolder : public checkpoint::testing::CheckpointTest {
 protected:
  // As peft writes one.
  json config_ = {{"peft_type", "LORA"},
                  {"task_type", "CAUSAL_LM"},
                  {"r", 4},
                  {"lora_alpha", 6},
                  {"lora_dropout", 0.0},
                  {"bias", "none"},
                  {"init_lora_weights", true},
                  {"use_dora", false},
                  {"layers_to_transform", nullptr},
                  {"loftq_config", json::object()},
                  {"target_modules", {"v_proj", "q_proj"}},
                  {"rank_pattern", {{"q_proj", 2}}},
                  {"alpha_pattern", json::object()}};

  ModelFamily family_;

  LoraOptions read() {
    write(config_.dump());
    return read_adapter(run, "--adapter", family_);
  }
  std::string error_with(const std::string& key, const json& value) {
    const json before = config_;
    config_[key] = value;
    std::string text = "no error";
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      text = error.what();
    }
    config_ = before;
    return text;
  }

  void write(const std::string& text) {
    std::filesystem::create_directories(run);
    checkpoint::testing::write_file(run + "/adapter_config.json", text);
  }
};

TEST_F(AdapterFolder, IsReadAsPeftWritesIt) {
  const LoraOptions options = read();
  EXPECT_EQ(options.r, 4);
  EXPECT_EQ(options.alpha, 6);
  EXPECT_THAT(options.targets, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(options.ranks.at("q_proj"), 2);
}

TEST_F(AdapterFolder, OtherAdaptersAreRefusedByName) {
  const std::pair<const char*, json> wrong[] = {{"peft_type", "IA3"},
                                                {"peft_type", nullptr},
                                                {"use_dora", true},
                                                {"bias", "all"},
                                                {"init_lora_weights", "pissa"},
                                                {"layers_to_transform", {1, 2}},
                                                {"exclude_modules", {"a"}},
                                                {"lora_bias", true},
                                                {"layer_replication", {{0, 4}}},
                                                {"target_parameters", {"a"}},
                                                {"trainable_token_indices", {1}},
                                                {"alora_invocation_tokens", {1}},
                                                {"use_qalora", true},
                                                {"kasa_config", {{"a", 1}}},
                                                {"megatron_config", {{"a", 1}}},
                                                {"arrow_config", {{"a", 1}}},
                                                {"layers_pattern", {"a"}},
                                                {"use_bdlora", true},
                                                {"velora_config", {{"a", 1}}},
                                                {"monteclora_config", {{"a", 1}}}};
  for (const auto& [key, value] : wrong)
    EXPECT_THAT(error_with(key, value), HasSubstr(key)) << key;
  EXPECT_EQ(error_with("init_lora_weights", "gaussian"), "no error");
}

// What peft takes for a regular expression.
TEST_F(AdapterFolder, PatternsAreRefused) {
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    for (const char* name : {"layers.1.*", "q?_proj"})
      EXPECT_THAT(error_with(key, {{name, 2}}), AllOf(HasSubstr(key), HasSubstr(name),
                                                      HasSubstr("regular expression")));
  }
}

// By the end of a name, wherever that begins: "norm" is input_layernorm, too.
TEST_F(AdapterFolder, ModulesToSaveAreThoseThatPeftFinds) {
  config_["modules_to_save"] = {"norm"};
  EXPECT_THAT(read().modules_to_save, ElementsAre("*norm"));
}

TEST_F(AdapterFolder, NamesAreThoseOfEachTransformers) {
  family_.names_in_peft = {{"out*", "head*"}};
  for (const char* name : {"out", "head"}) {
    config_["modules_to_save"] = {name};
    EXPECT_THAT(read().modules_to_save, ElementsAre("*out"));
  }
  EXPECT_THAT(names_in_peft(family_, "out.weight"),
              ElementsAre("out.weight", "head.weight"));
  EXPECT_THAT(names_in_peft(family_, "h.0.out.weight"), ElementsAre("h.0.out.weight"));
}

TEST_F(AdapterFolder, TellsWhatStandsBesideTheFactors) {
  std::filesystem::create_directories(run);
  const std::string prefix = kAdapterPrefix;
  checkpoint::SafetensorsWriter writer(run,
                                       {{prefix + "head.weight", DType::kFp32, {0}},
                                        {prefix + "q.lora_A.weight", DType::kFp32, {0}}},
                                       INT64_MAX, checkpoint::system_io(),
                                       checkpoint::kAdapterFile);
  writer.finish();
  family_.names_in_peft = {{"out*", "head*"}};
  EXPECT_THAT(names_beside_factors(run, family_), ElementsAre("out.weight"));
}

TEST_F(AdapterFolder, IsMissingOrBroken) {
  EXPECT_THROW(read_adapter(run, "--adapter", family_), Error);
  EXPECT_THROW(read_adapter(run + "/none", "--adapter", family_), Error);
  for (const char* text : {"", "{", "[1]", "3", "{\"r\": 1e400}"}) {
    write(text);
    EXPECT_ANY_THROW(read_adapter(run, "--adapter", family_)) << text;
  }
}

TEST_F(AdapterFolder, IsAddedToAModelWithoutOne) {
  json config = {{"n_layer", 2}};
  add_adapter(config, read(), "--adapter");
  EXPECT_EQ(config["lora"]["r"], 4);
  EXPECT_THROW(add_adapter(config, read(), "--adapter"), Error);
}

// A short name means all layers that have it.
TEST_F(AdapterFolder, ConfigNamesTheLayersThatHaveAdapters) {
  const std::vector<LoraTarget> layers = {{.fqn = "h.0.q", .rank = 3},
                                          {.fqn = "h.0.k", .rank = 3},
                                          {.fqn = "h.1.q", .rank = 3},
                                          {.fqn = "h.1.k"}};
  const json config = adapter_config({.r = 3, .alpha = 5}, layers, {"norm"}, "base");
  EXPECT_EQ(config["target_modules"], json({"h.0.k", "q"}));
  EXPECT_EQ(config["modules_to_save"], json({"norm"}));
  EXPECT_EQ(config["base_model_name_or_path"], "base");
  EXPECT_EQ(config["fan_in_fan_out"], false);
  EXPECT_EQ(config["r"], 3);
  EXPECT_EQ(config["lora_alpha"], 5);
  const json other =
      adapter_config({}, {{.fqn = "h.0.c", .is_transposed = true, .rank = 3}}, {}, "");
  EXPECT_EQ(other["fan_in_fan_out"], true);
  EXPECT_TRUE(other["base_model_name_or_path"].is_null());
  EXPECT_TRUE(other["modules_to_save"].is_null());
}

}  // namespace
}  // namespace zero::launcher::adapter_folder_test
