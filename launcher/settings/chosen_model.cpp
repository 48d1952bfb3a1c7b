#include "launcher/settings/chosen_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.h"
#include "checkpoint/error.h"
#include "checkpoint/json.h"
#include "launcher/settings/lora_setting.h"
#include "launcher/settings/names.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::shown;
using nlohmann::json;

// Keys of config.json that say nothing about what a model computes.
constexpr char kSilentKeys[] =
    "_name_or_path architectures auto_map bos_token_id chunk_size_feed_forward dtype "
    "eos_token_id gradient_checkpointing id2label is_encoder_decoder "
    "keys_to_ignore_at_inference label2id max_length model_type n_ctx "
    "output_attentions output_hidden_states pad_token_id pretraining_tp problem_type "
    "return_dict summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj task_specific_params tokenizer_class torch_dtype "
    "transformers_version use_cache";

Error wrong(const ModelFamily& family, const std::string& problem,
            const std::string& cure) {
  return {ExitCode::kUsage, problem, "model " + family.name, cure};
}

// The numbers of one kind of rotary scaling say nothing of another.
void forget_other_rotary(json& rope, const json& changes) {
  const auto type = changes.find("rope_type");
  if (type == changes.end() || *type == rope.value("rope_type", json())) return;
  json kept = json::object();
  for (const char* key : {"rope_theta", "partial_rotary_factor"})
    if (rope.contains(key)) kept[key] = rope[key];
  rope = kept;
}

// `changes` over a complete `config`, objects key by key. What a value follows from may
// be in the other one: only then is all up to date.
void merge(const ModelFamily& family, json& config, const json& changes) {
  for (const auto& [key, value] : changes.items()) {
    if (value.is_object() && config.contains(key) && config[key].is_object()) {
      forget_other_rotary(config[key], value);
      config[key].update(value);
    } else {
      config[key] = value;
    }
  }
  if (family.modernise) family.modernise(config);
}

// Every key under the name that it has now.
void modernise(const ModelFamily& family, const ConfigClass& of, json& given) {
  for (const auto& [alias, key] : of.aliases) {
    const auto found = given.find(alias);
    if (found == given.end()) continue;
    const json value = *found;
    given.erase(alias);
    if (given.value(key, json()).is_null()) given[key] = value;
    if (value.is_null() || given[key] == value) continue;
    throw wrong(family,
                fmt::format("{} is {} and {} is {}, which are two names of one value",
                            key, shown(given[key]), alias, shown(value)),
                fmt::format("{} alone", key));
  }
  if (family.modernise) family.modernise(given);
}

void require_fixed(const ModelFamily& family, const ConfigClass& of, const json& given) {
  for (const auto& [key, allowed] : of.fixed.items()) {
    const auto found = given.find(key);
    if (found == given.end() || std::ranges::count(allowed, *found) > 0) continue;
    std::vector<std::string> values;
    for (const json& value : allowed) values.push_back(value.dump());
    throw wrong(
        family,
        fmt::format("{} is {} in this config, which is not here", key, shown(*found)),
        fmt::format("{}: {}", key, alternatives(values)));
  }
}

// A setting that stands for a key of the config.
struct Size {
  const char* setting;
  int64_t value;  // 0: not given
  std::string key;
};

std::vector<Size> sizes_of(const ModelFamily& family, const Settings& s) {
  const ConfigKeys& keys = family.keys;
  std::vector<Size> sizes = {
      {"layers", s.layers, keys.layers},    {"dim", s.dim, keys.dim},
      {"heads", s.heads, keys.heads},       {"kv_heads", s.kv_heads, keys.kv_heads},
      {"ffn_dim", s.ffn_dim, keys.ffn_dim}, {"vocab", s.vocab, keys.vocab}};
  std::erase_if(sizes, [](const Size& size) { return size.value == 0; });
  for (const Size& size : sizes) {
    if (size.key.empty())
      throw wrong(family, fmt::format("{} is no setting of this model", size.setting),
                  "leave it out");
  }
  return sizes;
}

json value_of(const std::string& text) {
  try {
    return checkpoint::parse_strictly(text, "");
  } catch (const checkpoint::CheckpointError&) {
    return text;
  }
}

// KEY=VALUE, where a value that is no JSON is a text.
json overrides_in(const ModelFamily& family, const Settings& settings,
                  const json& config) {
  json changes = json::object();
  for (const std::string& word : settings.model_config) {
    const size_t equals = word.find('=');
    if (equals == word.npos || equals == 0)
      throw wrong(
          family, fmt::format("model_config is \"{}\"", word),
          fmt::format("--model-config KEY=VALUE, such as {}=2", family.keys.layers));
    const std::string value = word.substr(equals + 1);
    changes[word.substr(0, equals)] = value_of(value);
  }
  if (changes.empty()) return changes;
  if (const ConfigClass* of = find_class(family, config)) modernise(family, *of, changes);
  for (const auto& [key, value] : changes.items()) {
    if (config.contains(key) && key != "model_type") continue;
    std::vector<std::string> known;
    for (const auto& [each, unused] : config.items()) {
      if (each != "model_type") known.push_back(each);
    }
    throw wrong(family,
                fmt::format("model_config names \"{}\"{}", key, offer(key, known)),
                "--model-config KEY=VALUE with a key of the model's config");
  }
  return changes;
}

// Adapters that are there have their values.
void refuse_other_lora(const ModelFamily& family, const json& config,
                       const Settings& settings) {
  const json there = config.value(kLora, json());
  if (settings.lora.empty() || there.is_null()) return;
  const LoraOptions is = lora_from_json(there, "config of model " + family.name);
  // A folder of peft names modules by any end of their names.
  const auto by_name = [](LoraOptions options) {
    for (std::string& name : options.modules_to_save)
      if (name.starts_with('*')) name.erase(0, 1);
    return to_json(options);
  };
  if (by_name(is) == by_name(*parse_lora(settings.lora))) return;
  throw wrong(family, "the model that is there has other adapters: " + shown(to_json(is)),
              "leave --lora out; or first zero_launch export --merge, and --init-from "
              "what that writes");
}

// What settings say of training.
ModelShape shape_with(const ModelFamily& family, json config, const Settings& settings) {
  constexpr int64_t kLongestUnasked = 2048;
  ModelShape shape;
  shape.config = std::move(config);
  if (!settings.parts.empty()) {
    if (!family.has_parts)
      throw wrong(family, "parts is no setting of this model", "leave it out");
    shape.config[kParts] = settings.parts;
  }
  if (!settings.lora.empty() && shape.config.value(kLora, json()).is_null())
    shape.config[kLora] = to_json(*parse_lora(settings.lora));
  shape.keys = family.keys;
  shape.dropout = settings.dropout;
  shape.loss_chunk = settings.loss_chunk;
  shape.sublayers = settings.units == "sublayer";
  if (shape.sublayers && !family.has_sublayers)
    throw wrong(family,
                "units is \"sublayer\", and no layer of this model has attention and "
                "feed-forward",
                "--units layer");
  const int64_t positions =
      family.task == Task::kImages ? 1 : shape.integer(family.keys.positions);
  shape.seq_len =
      settings.seq_len > 0 ? settings.seq_len : std::min(positions, kLongestUnasked);
  if (shape.seq_len == 0)
    throw wrong(family, "seq_len is missing: this model does not tell it", "--seq-len N");
  return shape;
}

}  // namespace

const ModelFamily* find_family(const ModelFamilies& models, const std::string& name) {
  const auto found = std::ranges::find(models, name, &ModelFamily::name);
  return found == models.end() ? nullptr : &*found;
}

const ModelFamily* family_of_preset(const ModelFamilies& models,
                                    const std::string& name) {
  const auto found = std::ranges::find_if(
      models, [&](const ModelFamily& each) { return each.presets.contains(name); });
  return found == models.end() ? nullptr : &*found;
}

const json* find_preset(const ModelFamily& family, const std::string& name) {
  const auto found = family.presets.find(name.empty() ? family.default_preset : name);
  return found == family.presets.end() ? nullptr : &found->second;
}

const ConfigClass* find_class(const ModelFamily& family, const json& config) {
  if (family.classes.empty()) return nullptr;
  const auto type = config.find("model_type");
  if (type == config.end()) return &family.classes.front();
  const auto found = std::ranges::find_if(
      family.classes, [&](const ConfigClass& each) { return *type == each.model_type; });
  return found == family.classes.end() ? nullptr : &*found;
}

const ModelFamily* family_of_config(const ModelFamilies& models, const json& config) {
  if (!config.contains("model_type")) return nullptr;
  const auto found = std::ranges::find_if(models, [&](const ModelFamily& family) {
    return find_class(family, config) != nullptr;
  });
  return found == models.end() ? nullptr : &*found;
}

json complete_config(const ModelFamily& family, json given) {
  const ConfigClass* of = find_class(family, given);
  if (!of) return given;
  require_fixed(family, *of, given);
  modernise(family, *of, given);
  json config = of->defaults;
  config["model_type"] = of->model_type;
  if (family.has_parts && given.contains(kParts)) config[kParts] = nullptr;
  std::erase_if(given.get_ref<json::object_t&>(),
                [&](const auto& item) { return !config.contains(item.first); });
  merge(family, config, given);
  return config;
}

std::vector<std::string> unread_keys(const ModelFamily& family, json given) {
  const ConfigClass* of = find_class(family, given);
  if (!of) return {};
  modernise(family, *of, given);
  const std::vector<std::string> silent = split(kSilentKeys, ' ');
  std::vector<std::string> unread;
  for (const auto& [key, value] : given.items()) {
    const bool is_known = of->defaults.contains(key) || of->fixed.contains(key) ||
                          (family.has_parts && key == kParts) ||
                          std::ranges::count(of->dropouts, key) > 0 ||
                          std::ranges::count(silent, key) > 0;
    if (!is_known && !value.is_null()) unread.push_back(key);
  }
  return unread;
}

void refuse_of_other_task(const ModelFamily& family, const Settings& s) {
  const bool is_of_images = family.task == Task::kImages;
  const std::vector<std::pair<const char*, bool>> given = {
      {"seq_len", is_of_images && s.seq_len > 0},
      {"bytes", is_of_images && s.bytes},
      {"tokenizer", is_of_images && !s.tokenizer.empty()},
      {"loss_chunk", is_of_images && s.loss_chunk > 0},
      {"dropout", is_of_images && s.dropout > 0},
      {"accumulate", is_of_images && s.accumulate == "unit"},
      {"sample", is_of_images && !s.sample.empty()},
      {"augment", !is_of_images && !s.augment},
      {"sync_bn", !is_of_images && s.sync_bn}};
  for (const auto& [setting, is_given] : given) {
    if (is_given)
      throw wrong(family,
                  fmt::format("{} is no setting of a model for {}", setting,
                              is_of_images ? "images" : "language"),
                  fmt::format("leave {} out{}", flag_of(*find_setting(setting)),
                              std::string_view(setting) == "sample"
                                  ? "; zero_launch predict tells the classes of images"
                                  : ""));
  }
}

void require_loss(const ModelShape& shape) {
  if (shape.has("embed") && shape.has("head")) return;
  throw Error(ExitCode::kUsage,
              fmt::format("of this model there are {} alone: without embed and head it "
                          "has no loss and continues no text",
                          parts_text(shape)),
              "parts",
              "--parts with embed and head; the others go with seed, plan, inspect and "
              "export, which joins them to a whole model");
}

const std::vector<std::string>& adapter_names() {
  static const std::vector<std::string> names = {"*.lora_A.weight", "*.lora_B.weight"};
  return names;
}

bool is_of_adapter(const std::string& fqn) { return matches_any(adapter_names(), fqn); }

std::vector<std::string> adapter_names(const ModelShape& shape) {
  return shape.lora() ? adapter_names() : std::vector<std::string>();
}

std::string parts_text(const ModelShape& shape) {
  if (!shape.parts()) return "";
  return fmt::format("{}",
                     fmt::join(shape.parts()->get<std::vector<std::string>>(), ", "));
}

ModelShape new_shape(const ModelFamily& family, const Settings& settings) {
  const json& preset = *find_preset(family, settings.preset);
  json config = complete_config(family, preset);
  const std::vector<Size> sizes = sizes_of(family, settings);
  const json before = config;
  const auto put = [&] {
    for (const Size& size : sizes) config[size.key] = size.value;
  };
  put();
  const auto is_other = [&](const std::string& key) {
    return !key.empty() && config.value(key, json()) != before.value(key, json());
  };
  if (family.resize && (is_other(family.keys.dim) || is_other(family.keys.heads))) {
    family.resize(config);
    put();
  }
  merge(family, config, overrides_in(family, settings, config));
  ModelShape shape = shape_with(family, std::move(config), settings);
  const std::string& positions = family.keys.positions;
  if (!positions.empty() &&
      (family.learns_positions || shape.seq_len > shape.integer(positions)))
    shape.config[positions] = shape.seq_len;
  return shape;
}

ModelShape shape_of(const ModelFamily& family, const json& config,
                    const Settings& settings) {
  refuse_of_other_task(family, settings);
  std::vector<std::string> others, flags;
  for (const Size& size : sizes_of(family, settings)) {
    const json value = config.value(size.key, json());
    if (value == size.value) continue;
    others.push_back(
        fmt::format("{} {}, not {}", size.setting, shown(value), size.value));
    flags.push_back(flag_of(*find_setting(size.setting)));
  }
  if (!others.empty())
    throw wrong(family,
                fmt::format("the model that is there has {}", fmt::join(others, "; ")),
                fmt::format("leave out {}", fmt::join(flags, ", ")));
  refuse_other_lora(family, config, settings);
  json changed = config;
  merge(family, changed, overrides_in(family, settings, config));
  ModelShape shape = shape_with(family, std::move(changed), settings);
  const int64_t positions = shape.integer(family.keys.positions);
  if (positions > 0 && shape.seq_len > positions) {
    throw wrong(family,
                fmt::format("seq_len is {}, and the model is made for {} positions",
                            shape.seq_len, positions),
                fmt::format("--seq-len {} or less{}", positions,
                            family.learns_positions
                                ? ""
                                : fmt::format("; or --model-config {}={}",
                                              family.keys.positions, shape.seq_len)));
  }
  return shape;
}

}  // namespace zero::launcher
