// Llama's configs: classes of model_type with their defaults, presets, first values.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/json.h"
#include "examples/models/config_reader.h"
#include "examples/models/decoder.h"
#include "examples/models/families.h"
#include "examples/models/llama.h"

namespace zero {
namespace {

using nlohmann::json;

// What all of them read, with Llama's own defaults.
const json kLlama = {
    {"vocab_size", 32000},
    {"hidden_size", 4096},
    {"intermediate_size", 11008},
    {"num_hidden_layers", 32},
    {"num_attention_heads", 32},
    {"num_key_value_heads", nullptr},
    {"head_dim", nullptr},
    {"max_position_embeddings", 2048},
    {"initializer_range", 0.02},
    {"rms_norm_eps", 1e-6},
    {"tie_word_embeddings", false},
    {"pad_token_id", nullptr},
    {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};

json with(json changes) {
  json result = kLlama;
  result.update(changes);
  return result;
}

const json kQwen = {{"vocab_size", 151936},        {"intermediate_size", 22016},
                    {"num_key_value_heads", 32},   {"max_position_embeddings", 32768},
                    {"use_sliding_window", false}, {"sliding_window", 4096},
                    {"max_window_layers", 28},     {"layer_types", nullptr}};

json with_qwen(json changes) {
  json all = kQwen;
  all.update(changes);
  return with(all);
}

std::vector<ConfigClass> llama_classes() {
  const json silu = {{"hidden_act", {"silu"}}};
  json no_layer_types = silu;
  no_layer_types["layer_types"] = {nullptr};
  const std::vector<std::string> dropouts = {"attention_dropout"};
  std::vector<ConfigClass> classes = {
      {"llama", "LlamaForCausalLM",
       with({{"attention_bias", false}, {"mlp_bias", false}}), no_layer_types, dropouts},
      {"mistral", "MistralForCausalLM",
       with({{"intermediate_size", 14336},
             {"num_key_value_heads", 8},
             {"max_position_embeddings", 131072},
             {"sliding_window", 4096}}),
       no_layer_types, dropouts},
      {"qwen2", "Qwen2ForCausalLM", with_qwen(json::object()), silu, dropouts},
      {"qwen3", "Qwen3ForCausalLM",
       with_qwen({{"head_dim", 128}, {"attention_bias", false}}), silu, dropouts}};
  for (ConfigClass& each : classes) {
    each.prefix = "model.";
    each.dead = {"*.rotary_emb.inv_freq"};
  }
  return classes;
}

// These models turn all values of a head. transformers leaves a fraction unread in the
// default type, and fails with it in the others.
void require_whole_heads(const ConfigReader& config) {
  const json& rope = config.at("rope_parameters");
  const json fraction = rope.value("partial_rotary_factor", json());
  config.require(fraction.is_null() || fraction == 1.0 ||
                     rope.value("rope_type", json("default")) == "default",
                 "partial_rotary_factor is " + checkpoint::shown(fraction) +
                     ", and these models turn all values of a head",
                 "partial_rotary_factor: 1.0, or leave it out");
}

// Keys that a query of layer `i` sees; 0: all.
std::vector<int64_t> read_windows(const ConfigReader& config, int64_t num_layers) {
  std::vector<int64_t> windows(num_layers, 0);
  const bool slides =
      config.has("layer_types") &&
      std::ranges::count(config.at("layer_types"), "sliding_attention") > 0;
  config.require(!slides || config.has("sliding_window"),
                 "layer_types has sliding_attention, and sliding_window is null",
                 "sliding_window: N, or layer_types of full_attention alone");
  if (!config.has("sliding_window")) return windows;
  const int64_t window = config.integer("sliding_window", 1, 1 << 30);
  if (config.text("model_type") == "mistral") {
    windows.assign(num_layers, window);
    return windows;
  }
  if (!config.boolean("use_sliding_window")) {
    config.require(!slides,
                   "layer_types has sliding_attention, and use_sliding_window is false",
                   "use_sliding_window: true, or layer_types of full_attention alone");
    return windows;
  }
  const int64_t first = config.integer("max_window_layers", 0, 1 << 30);
  for (int64_t i = first; i < num_layers; ++i) windows[i] = window;
  if (!config.has("layer_types")) return windows;
  const json& types = config.at("layer_types");
  config.require(types.is_array() && std::ssize(types) == num_layers,
                 "layer_types does not have an entry for each of " +
                     std::to_string(num_layers) + " layers",
                 "as many as num_hidden_layers");
  for (int64_t i = 0; i < num_layers; ++i) {
    const bool slides = types[i] == "sliding_attention";
    config.require(slides || types[i] == "full_attention",
                   "layer_types has " + checkpoint::shown(types[i]),
                   "full_attention or sliding_attention");
    windows[i] = slides ? window : 0;
  }
  return windows;
}

// The sizes that go with another width than that of a preset: feed-forward layers of 8/3
// of it, rounded up to 64, and a head of keys and values for each of the queries'.
void llama_resize(json& config) {
  const int64_t dim = config.at("hidden_size"), heads = config.at("num_attention_heads");
  config["intermediate_size"] = (dim * 8 / 3 + 63) / 64 * 64;
  config["num_key_value_heads"] = heads;
  config["head_dim"] = std::max<int64_t>(1, dim / heads);
}

// Not every class works them out from a null.
void age(json& config) {
  age_rotary(config);
  const json heads = config.at("num_attention_heads");
  if (config.at("num_key_value_heads").is_null()) config["num_key_value_heads"] = heads;
  if (config.at("head_dim").is_null())
    config["head_dim"] = config.at("hidden_size").get<int64_t>() / heads.get<int64_t>();
}

InitRules llama_init_rules(const LlamaConfig& config) {
  InitSpec embedding = normal(0, config.initializer_range);
  if (config.padding_idx) {
    const int64_t row = *config.padding_idx < 0 ? config.vocab_size + *config.padding_idx
                                                : *config.padding_idx;
    embedding.zero_row_begin = row * config.n_embd;
    embedding.zero_row_end = (row + 1) * config.n_embd;
  }
  return {{"*norm.weight", ones()},
          {"*.bias", zeros()},
          {"model.embed_tokens.weight", embedding},
          {"*", normal(0, config.initializer_range)}};
}

// What a layer keeps for its backward: of each norm its input, a number of each row and
// its output; queries and keys as they were rotated, values, what attention makes of
// them; gate, up and their product. With dropout LibTorch copies keys and values for each
// query that uses them.
DecoderSizes llama_sizes(const LlamaConfig& c, const PassShape& pass) {
  const auto dim = static_cast<double>(c.n_embd), inner = static_cast<double>(c.inner()),
             q = static_cast<double>(c.q_dim()), kv = static_cast<double>(c.kv_dim());
  const auto num_head_rows = static_cast<double>(c.n_head + c.num_kv_heads);
  const double num_rows = 2 + (c.has_qk_norm ? num_head_rows : 0);
  const double keys = c.dropout > 0 ? q : kv;
  return {.inner = 2 * inner,
          .kept_per_token = 4 * dim + 2 * (q + keys) + 3 * inner +
                            (c.has_qk_norm ? q + kv : 0) +
                            num_rows * 4 / pass.element_bytes,
          .kept_in_mlp = 2 * dim + 3 * inner + 4. / pass.element_bytes,
          .weights = 2 * dim * (q + kv) + 3 * dim * inner,
          .mlp_weights = 3 * dim * inner,
          .masks_stream = false,
          .is_tied = c.has_tied_head};
}

json preset(const char* model_type, int64_t layers, int64_t dim, int64_t heads,
            int64_t kv_heads, int64_t ffn_dim, json others) {
  json config = {{"model_type", model_type},
                 {"num_hidden_layers", layers},
                 {"hidden_size", dim},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", kv_heads},
                 {"intermediate_size", ffn_dim}};
  config.update(others);
  return config;
}

json rope(double theta) { return {{"rope_type", "default"}, {"rope_theta", theta}}; }

json llama3_rope(double factor) {
  return {{"rope_type", "llama3"},   {"rope_theta", 5e5},
          {"factor", factor},        {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
}

std::map<std::string, json> llama_presets() {
  const json small = {{"vocab_size", nullptr},
                      {"max_position_embeddings", 256},
                      {"rms_norm_eps", 1e-5},
                      {"tie_word_embeddings", true}};
  const json llama31 = {{"vocab_size", 128256},
                        {"max_position_embeddings", 131072},
                        {"rms_norm_eps", 1e-5},
                        {"rope_parameters", llama3_rope(8)}};
  json llama32 = llama31;
  llama32["rope_parameters"] = llama3_rope(32);
  llama32["tie_word_embeddings"] = true;
  json llama32_1b = llama32;
  llama32_1b["head_dim"] = 64;
  const json llama2 = {{"max_position_embeddings", 4096}, {"rms_norm_eps", 1e-5}};
  const json smol = {{"vocab_size", 49152},
                     {"max_position_embeddings", 8192},
                     {"rms_norm_eps", 1e-5},
                     {"tie_word_embeddings", true},
                     {"rope_parameters", rope(1e5)}};
  const json mistral = {{"vocab_size", 32768},
                        {"rms_norm_eps", 1e-5},
                        {"max_position_embeddings", 32768},
                        {"sliding_window", nullptr},
                        {"rope_parameters", rope(1e6)}};
  const auto qwen = [](bool is_tied, double theta, int64_t vocab, int64_t positions) {
    return json{{"vocab_size", vocab},
                {"max_position_embeddings", positions},
                {"tie_word_embeddings", is_tied},
                {"rope_parameters", rope(theta)}};
  };
  return {{"llama-1m", preset("llama", 3, 128, 4, 2, 384, small)},
          {"llama-10m", preset("llama", 6, 384, 6, 2, 1024, small)},
          {"smollm2-135m", preset("llama", 30, 576, 9, 3, 1536, smol)},
          {"smollm2-360m", preset("llama", 32, 960, 15, 5, 2560, smol)},
          {"llama-1b", preset("llama", 16, 2048, 32, 8, 8192, llama32_1b)},
          {"llama-3b", preset("llama", 28, 3072, 24, 8, 8192, llama32)},
          {"llama-8b", preset("llama", 32, 4096, 32, 8, 14336, llama31)},
          {"llama-70b", preset("llama", 80, 8192, 64, 8, 28672, llama31)},
          {"llama2-7b", preset("llama", 32, 4096, 32, 32, 11008, llama2)},
          {"llama2-13b", preset("llama", 40, 5120, 40, 40, 13824, llama2)},
          {"mistral-7b", preset("mistral", 32, 4096, 32, 8, 14336, mistral)},
          {"qwen2.5-0.5b",
           preset("qwen2", 24, 896, 14, 2, 4864, qwen(true, 1e6, 151936, 32768))},
          {"qwen2.5-1.5b",
           preset("qwen2", 28, 1536, 12, 2, 8960, qwen(true, 1e6, 151936, 131072))},
          {"qwen2.5-7b",
           preset("qwen2", 28, 3584, 28, 4, 18944, qwen(false, 1e6, 152064, 131072))},
          {"qwen2.5-14b",
           preset("qwen2", 48, 5120, 40, 8, 13824, qwen(false, 1e6, 152064, 131072))},
          {"qwen3-0.6b",
           preset("qwen3", 28, 1024, 16, 8, 3072, qwen(true, 1e6, 151936, 40960))},
          {"qwen3-8b",
           preset("qwen3", 36, 4096, 32, 8, 12288, qwen(false, 1e6, 151936, 40960))},
          {"qwen3-14b",
           preset("qwen3", 40, 5120, 40, 8, 17408, qwen(false, 1e6, 151936, 40960))}};
}

}  // namespace

LlamaConfig llama_config(const ModelShape& shape) {
  const ConfigReader config(shape.config, "llama");
  const std::string type = config.text("model_type");
  config.integer("intermediate_size", 1, 1 << 26);  // follows from nothing
  if (type == "qwen3") config.integer("head_dim");  // there, too
  LlamaConfig llama{read_decoder(config, shape, "rms_norm_eps")};
  llama.head_dim = config.has("head_dim")
                       ? config.integer("head_dim", 1, 1 << 16)
                       : read_head_dim(config, shape, llama, ", or head_dim");
  llama.num_kv_heads = config.integer_or("num_key_value_heads", llama.n_head, 1, 1 << 16);
  config.require(llama.n_head % llama.num_kv_heads == 0,
                 "num_attention_heads " + std::to_string(llama.n_head) +
                     " is no multiple of num_key_value_heads " +
                     std::to_string(llama.num_kv_heads),
                 "a multiple of it");
  const bool has_bias =
      (type == "llama" || type == "qwen3") && config.boolean("attention_bias");
  llama.has_qkv_bias = has_bias || type == "qwen2";
  llama.has_o_bias = has_bias;
  llama.has_mlp_bias = type == "llama" && config.boolean("mlp_bias");
  llama.has_qk_norm = type == "qwen3";
  if (config.has("pad_token_id")) {
    llama.padding_idx =
        config.integer("pad_token_id", -llama.vocab_size, llama.vocab_size - 1);
  }
  llama.windows = read_windows(config, llama.n_layer);
  llama.rotary = read_rotary(config, llama.head_dim);
  require_whole_heads(config);
  return llama;
}

ModelFamily llama_family() {
  ModelFamily family;
  family.name = "llama";
  family.keys = {.layers = "num_hidden_layers",
                 .dim = "hidden_size",
                 .heads = "num_attention_heads",
                 .kv_heads = "num_key_value_heads",
                 .ffn_dim = "intermediate_size",
                 .positions = "max_position_embeddings"};
  family.classes = llama_classes();
  family.presets = llama_presets();
  family.default_preset = "llama-10m";
  family.modernise = [](json& config) { modernise_rotary(config); };
  family.age = age;
  family.resize = llama_resize;
  set_model(family, llama_config, make_llama, llama_init_rules, llama_sizes);
  return family;
}

}  // namespace zero
