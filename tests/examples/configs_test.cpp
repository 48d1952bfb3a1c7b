// What the families make of config.json, against what transformers makes of it.
#include <gtest/gtest.h>

#include "examples/models/config_reader.h"
#include "examples/models/families.h"
#include "examples/models/llama.h"
#include "launcher/settings/chosen_model.h"
#include "tests/examples/references.h"
#include "zero/deferred_init.h"
#include "zero/errors.h"

namespace zero::configs_test {
namespace {

using nlohmann::json;

ModelShape shape_of(const json& config) {
  const ModelFamily family = family_of(config);
  const json complete = launcher::complete_config(family, config);
  family.check({.config = complete, .keys = family.keys});
  return launcher::shape_of(family, complete, {});
}

// Unique parameters by name, without memory.
std::map<std::string, std::vector<int64_t>> parameters_of(const json& config,
                                                          int64_t& numel) {
  const DeferredInit no_memory;
  const auto model = family_of(config).make(shape_of(config));
  std::set<const at::TensorImpl*> seen;
  std::map<std::string, std::vector<int64_t>> shapes;
  numel = 0;
  for (const auto& item : model->module()->named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    numel += item.value().numel();
    shapes[item.key()] = item.value().sizes().vec();
  }
  return shapes;
}

TEST(Configs, LimitsOfNumbersAreIncluded) {
  const json config = {{"least", 3}, {"most", 5}, {"below", 2}, {"above", 6}};
  const ConfigReader reader(config, "test");
  EXPECT_EQ(reader.integer("least", 3, 5), 3);
  EXPECT_EQ(reader.integer("most", 3, 5), 5);
  EXPECT_THROW(reader.integer("below", 3, 5), Error);
  EXPECT_THROW(reader.integer("above", 3, 5), Error);
  EXPECT_EQ(reader.number("least", 3, 5), 3);
  EXPECT_EQ(reader.number("most", 3, 5), 5);
  EXPECT_THROW(reader.number("below", 3, 5), Error);
  EXPECT_THROW(reader.number("above", 3, 5), Error);
}

// As transformers fails with them.
TEST(Configs, WhatTransformersFailsWithIsRefused) {
  const json llama = {{"model_type", "llama"}},
             qwen = {{"model_type", "qwen2"}, {"num_hidden_layers", 2}};
  const auto refuses = [](json config, const json& more) {
    config.update(more);
    EXPECT_THROW(shape_of(config), Error) << config;
  };
  const json linear = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_NO_THROW(shape_of({{"model_type", "llama"}, {"rope_parameters", linear}}));
  json partial = linear;
  partial["partial_rotary_factor"] = 0.5;
  refuses(llama, {{"rope_parameters", partial}});
  const json types = {"full_attention", "sliding_attention"};
  refuses(qwen, {{"use_sliding_window", false}, {"layer_types", types}});
  refuses(qwen, {{"use_sliding_window", true},
                 {"sliding_window", nullptr},
                 {"layer_types", types}});
}

TEST(Configs, PublishedModelsAreTheOnesThatTransformersMakes) {
  const json all = read_json("configs.json");
  for (const auto& [name, entry] : all.items()) {
    SCOPED_TRACE(name);
    if (entry.contains("error")) continue;
    const json& expected = entry["transformers"];
    int64_t numel = 0;
    const auto shapes = parameters_of(entry["config"], numel);
    EXPECT_EQ(numel, expected["parameters"]);
    for (const auto& [fqn, shape] : expected["shapes"].items()) {
      if (fqn == "lm_head.weight" && !shapes.contains(fqn)) continue;  // tied
      ASSERT_TRUE(shapes.contains(fqn)) << fqn;
      EXPECT_EQ(json(shapes.at(fqn)), shape) << fqn;
    }
    const json config = shape_of(entry["config"]).config;
    if (expected.contains("rope_parameters")) {
      for (const auto& [key, value] : expected["rope_parameters"].items()) {
        if (key == "type") continue;  // of old, and kept beside rope_type
        EXPECT_EQ(config["rope_parameters"].value(key, json()), value) << key;
      }
    }
    for (const char* key :
         {"initializer_range", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
          "tie_word_embeddings", "max_position_embeddings", "use_parallel_residual"}) {
      if (!config.contains(key) || !expected.contains(key)) continue;
      EXPECT_EQ(config[key], expected[key]) << key;
    }
    if (!expected.contains("rotary_dims")) continue;
    if (family_of(entry["config"]).name != "llama") continue;
    const LlamaConfig llama = llama_config(shape_of(entry["config"]));
    EXPECT_EQ(llama.rotary.dim, expected["rotary_dims"]);
    for (size_t i = 0; i < llama.windows.size(); ++i)
      EXPECT_EQ(llama.windows[i] == 0 ? json() : json(llama.windows[i]),
                expected["windows"][i])
          << i;
  }
}

TEST(Configs, WhatTransformersRefusesIsRefused) {
  const json all = read_json("configs.json");
  for (const auto& [name, entry] : all.items()) {
    if (!entry.contains("error")) continue;
    EXPECT_THROW(
        {
          int64_t numel;
          parameters_of(entry["config"], numel);
        },
        std::exception)
        << name;
  }
}

// As they were published.
TEST(Configs, PresetsHaveThePublishedSizes) {
  const std::map<std::string, int64_t> published = {
      {"gpt2-124m", 124'439'808},      {"gpt2-350m", 354'823'168},
      {"gpt2-774m", 774'030'080},      {"gpt2-1.5b", 1'557'611'200},
      {"smollm2-135m", 134'515'008},   {"llama-1b", 1'235'814'400},
      {"llama-3b", 3'212'749'824},     {"llama-8b", 8'030'261'248},
      {"llama-70b", 70'553'706'496},   {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},  {"mistral-7b", 7'248'023'552},
      {"qwen2.5-0.5b", 494'032'768},   {"qwen2.5-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},     {"qwen3-8b", 8'190'735'360},
      {"gptj-6b", 6'050'882'784},      {"pythia-70m", 70'426'624},
      {"pythia-1.4b", 1'414'647'808},  {"pythia-12b", 11'846'072'320},
      {"gpt-neox-20b", 20'554'567'680}};
  int64_t num_found = 0;
  for (const ModelFamily& family : example_families()) {
    for (const auto& [name, preset] : family.presets) {
      SCOPED_TRACE(name);
      launcher::Settings settings;
      settings.preset = name;
      ModelShape shape = launcher::new_shape(family, settings);
      if (shape.vocab() == 0) shape.config["vocab_size"] = 257;
      const DeferredInit no_memory;
      const auto model = family.make(shape);
      std::set<const at::TensorImpl*> seen;
      int64_t numel = 0;
      for (const at::Tensor& each : model->module()->parameters()) {
        if (seen.insert(each.unsafeGetTensorImpl()).second) numel += each.numel();
      }
      if (!published.contains(name)) continue;
      ++num_found;
      EXPECT_EQ(numel, published.at(name));
    }
  }
  EXPECT_EQ(num_found, std::ssize(published));
}

// Of another kind, or off: the numbers of llama-8b's own scaling say nothing then.
TEST(Presets, TakeAnotherScalingOfPositionsWhole) {
  const auto rope_with = [](const std::string& given) {
    launcher::Settings settings;
    settings.preset = "llama-8b";
    settings.model_config = {given};
    const ModelFamilies families = example_families();
    return launcher::new_shape(*launcher::find_family(families, "llama"), settings)
        .config["rope_parameters"];
  };
  const json off = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  EXPECT_EQ(rope_with("rope_scaling=null"), off);
  EXPECT_EQ(rope_with("rope_parameters=null"), off);
  EXPECT_EQ(rope_with(R"(rope_scaling={"rope_type":"linear","factor":2})"),
            (json{{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 500000.0}}));
  EXPECT_EQ(rope_with(R"(rope_parameters={"factor":4})")["low_freq_factor"], 1.0);
}

json tiny(const char* model_type) {
  return {{"model_type", model_type}, {"vocab_size", 64},
          {"hidden_size", 16},        {"num_hidden_layers", 2},
          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 32},  {"head_dim", 4}};
}

std::string complaint(const json& config) {
  try {
    shape_of(config);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
}

TEST(Configs, WhatIsNotHereIsRefusedByName) {
  const auto with = [](json config, const json& changes) {
    config.update(changes);
    return config;
  };
  EXPECT_EQ(complaint(tiny("llama")), "");
  EXPECT_EQ(complaint({{"model_type", "gpt_neox"}, {"head_dim", 96}}), "");
  const std::vector<std::pair<json, std::string>> cases = {
      {with(tiny("llama"), {{"hidden_act", "gelu"}}), "hidden_act"},
      {with(tiny("llama"), {{"layer_types", {"full_attention"}}}), "layer_types"},
      {with(tiny("llama"), {{"hidden_size", "16"}}), "hidden_size is \"16\""},
      {with(tiny("llama"), {{"hidden_size", -16}}), "hidden_size is -16"},
      {with(tiny("llama"), {{"hidden_size", 1e30}}), "hidden_size"},
      {with(tiny("llama"), {{"hidden_size", 18446744073709551615ull}}), "hidden_size"},
      {with(tiny("llama"), {{"num_hidden_layers", nullptr}}), "num_hidden_layers"},
      {with(tiny("llama"), {{"num_key_value_heads", 3}}), "num_key_value_heads"},
      {{{"model_type", "qwen2"}, {"num_attention_heads", 16}}, "num_key_value_heads 32"},
      {with(tiny("llama"), {{"max_position_embeddings", -5}}),
       "max_position_embeddings is -5"},
      {{{"model_type", "gptj"}, {"n_positions", "many"}}, "n_positions is \"many\""},
      {{{"model_type", "gpt_neox"}, {"max_position_embeddings", 0}},
       "max_position_embeddings is 0"},
      {with(tiny("llama"), {{"head_dim", 5}}), "an even number"},
      {with(tiny("llama"), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}),
       "dynamic"},
      {with(tiny("llama"), {{"rope_scaling", "yarn"}}), "rope_parameters"},
      {with(tiny("llama"), {{"pad_token_id", 64}}), "pad_token_id"},
      {with(tiny("qwen2"), {{"use_sliding_window", true},
                            {"layer_types", {"full_attention", "chunked_attention"}}}),
       "chunked_attention"},
      {with(tiny("qwen2"),
            {{"use_sliding_window", true}, {"layer_types", {"full_attention"}}}),
       "layer_types"},
      {{{"model_type", "gpt2"}, {"scale_attn_by_inverse_layer_idx", true}},
       "scale_attn_by_inverse_layer_idx"},
      {{{"model_type", "gptj"}, {"rotary_dim", 300}}, "rotary_dim"},
      {{{"model_type", "gptj"}, {"rotary_dim", 63}}, "rotary_dim is odd"},
      {{{"model_type", "gpt_neox"}, {"head_dim", 32}}, "head_dim is 32"},
      {{{"model_type", "gpt_neox"}, {"hidden_act", "relu"}}, "relu"}};
  for (const auto& [config, part] : cases)
    EXPECT_NE(complaint(config).find(part), std::string::npos)
        << part << " in: " << complaint(config);
}

TEST(Configs, KeysThatNobodyReadsAreTold) {
  json config = tiny("llama");
  config["architectures"] = {"LlamaForCausalLM"};
  config["attention_dropout"] = 0.1;
  config["logit_scale"] = 3;
  config["rope_theta"] = 5e5;
  EXPECT_EQ(launcher::unread_keys(family_of(config), config),
            std::vector<std::string>{"logit_scale"});
}

}  // namespace
}  // namespace zero::configs_test
