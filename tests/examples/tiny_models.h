#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

// Configs of small models, with every parameter that a family can have.
namespace zero {

inline nlohmann::json with(nlohmann::json config, const nlohmann::json& changes) {
  config.update(changes);
  return config;
}

inline const nlohmann::json kTinyGpt = {{"vocab_size", 64}, {"n_embd", 16},
                                        {"n_layer", 2},     {"n_head", 2},
                                        {"n_inner", 24},    {"initializer_range", 0.3}};
inline const nlohmann::json kTinyLlama = {
    {"vocab_size", 64},         {"hidden_size", 16},       {"num_hidden_layers", 2},
    {"num_attention_heads", 4}, {"intermediate_size", 24}, {"initializer_range", 0.3}};

inline const std::map<std::string, nlohmann::json> kTiny = {
    {"gpt2", with(kTinyGpt, {{"model_type", "gpt2"}, {"tie_word_embeddings", false}})},
    {"gptj", with(kTinyGpt, {{"model_type", "gptj"}, {"rotary_dim", 4}})},
    {"gpt_neox", with(kTinyLlama, {{"model_type", "gpt_neox"}, {"rotary_pct", 0.5}})},
    {"llama",
     with(kTinyLlama,
          {{"model_type", "llama"}, {"attention_bias", true}, {"mlp_bias", true}})},
    {"mistral",
     with(kTinyLlama, {{"model_type", "mistral"}, {"num_key_value_heads", 1}})},
    {"qwen2",
     with(kTinyLlama,
          {{"model_type", "qwen2"}, {"num_key_value_heads", 2}, {"pad_token_id", -3}})},
    {"qwen3", with(kTinyLlama, {{"model_type", "qwen3"},
                                {"num_key_value_heads", 2},
                                {"head_dim", 8},
                                {"attention_bias", true},
                                {"pad_token_id", 5}})}};

}  // namespace zero
