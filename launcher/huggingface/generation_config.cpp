#include "launcher/huggingface/generation_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/json.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

constexpr char kFile[] = "generation_config.json";

// One JSON object of a folder; null: there is no such file.
class JsonFile {
 public:
  JsonFile(const std::string& folder, const char* name) : path_(folder + "/" + name) {
    constexpr int64_t kLargest = 4 << 20;
    const checkpoint::Folder files(folder);
    if (!files.has(name)) return;
    object_ =
        checkpoint::parse_strictly(checkpoint::read_text(files, name, kLargest), path_);
    if (!object_.is_object()) fail("it is no object");
  }

  // What changes texts perhaps, and is none of `read`: a value that is neither nothing
  // nor what it is where nobody asks for it.
  std::vector<std::string> others(const std::set<std::string>& read) const {
    const json nothing = {nullptr, false, 0, 1, json::array(), json::object()};
    std::vector<std::string> others;
    for (const auto& [key, value] : object_.items())
      if (!read.contains(key) && std::ranges::find(nothing, value) == nothing.end())
        others.push_back(key);
    return others;
  }

  bool is_there() const { return object_.is_object(); }

  std::optional<double> number(const char* key, double least, double most) const {
    const json value = get(key);
    if (value.is_null()) return {};
    if (!value.is_number() || value.get<double>() < least || value.get<double>() > most)
      fail(fmt::format("{} is {}; allowed: a number from {} to {}", key,
                       checkpoint::shown(value), least, most));
    return value.get<double>();
  }

  std::optional<int64_t> integer(const char* key, int64_t least, int64_t most) const {
    const auto value = number(key, static_cast<double>(least), static_cast<double>(most));
    if (value && *value != std::floor(*value))
      fail(fmt::format("{} is {}; allowed: an integer", key, *value));
    return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
  }

  bool boolean(const char* key) const {
    const json value = get(key);
    if (!value.is_null() && !value.is_boolean())
      fail(
          fmt::format("{} is {}; allowed: true or false", key, checkpoint::shown(value)));
    return value.is_boolean() && value.get<bool>();
  }

  // One or a list.
  std::vector<int64_t> tokens(const char* key) const {
    const json value = get(key);
    if (value.is_null()) return {};
    std::vector<int64_t> tokens;
    for (const json& token : value.is_array() ? value : json::array({value})) {
      if (!token.is_number_integer() || token < 0)
        fail(fmt::format("{} is {}; allowed: numbers of tokens", key,
                         checkpoint::shown(value)));
      tokens.push_back(token);
    }
    return tokens;
  }

 private:
  json get(const char* key) const {
    return is_there() ? object_.value(key, json()) : json();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw checkpoint::CheckpointError(path_, "", what, "mend the file, or remove it");
  }

  const std::string path_;
  json object_;
};

// What is read of the file, and what has no say in what a text is here.
const std::set<std::string> kKnown = {"do_sample",
                                      "temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "eos_token_id",
                                      "bos_token_id",
                                      "pad_token_id",
                                      "repetition_penalty",
                                      "use_cache",
                                      "transformers_version",
                                      "decoder_start_token_id",
                                      "_from_model_config",
                                      "cache_implementation"};

// What a drawn token depends on.
constexpr const char* kDraws[] = {"sample_temperature", "sample_top_k", "sample_top_p",
                                  "sample_min_p"};

}  // namespace

GenerationConfig read_generation_config(const std::string& folder) {
  const JsonFile file(folder, kFile);
  GenerationConfig config;
  config.is_there = file.is_there();
  config.unread = file.others(kKnown);
  config.samples = file.boolean("do_sample");
  config.temperature = file.number("temperature", 0, 1e6);
  config.top_p = file.number("top_p", 0, 1);
  config.min_p = file.number("min_p", 0, 1);
  config.repetition_penalty = file.number("repetition_penalty", 1e-6, 1e6);
  config.top_k = file.integer("top_k", 0, 1 << 30);
  config.ends = file.tokens("eos_token_id");
  if (config.ends.empty())
    config.ends = JsonFile(folder, "config.json").tokens("eos_token_id");
  return config;
}

std::vector<std::string> take_over(
    const GenerationConfig& config, bool is_model_folder,
    const std::function<bool(const std::string& key)>& is_given, Settings& settings) {
  const bool asks_to_draw = std::ranges::any_of(kDraws, is_given);
  // What is asked for now beats what a run was told.
  if (asks_to_draw && !is_given("sample_greedy")) settings.sample_greedy = false;
  if (!config.is_there && !is_model_folder) return {};
  std::vector<std::string> said;
  const auto take = [&](const char* key, const auto& value, auto& to) {
    if (!value || is_given(key)) return;
    to = *value;
    said.push_back(fmt::format("{} {}", std::string(key).substr(7), *value));
  };
  take("sample_repetition_penalty", config.repetition_penalty,
       settings.sample_repetition_penalty);
  if (!is_given("sample_greedy"))
    settings.sample_greedy = !config.samples && !asks_to_draw;
  if (settings.sample_greedy) {
    if (!is_given("sample_greedy")) said.push_back("always the likeliest token");
  } else {
    const std::optional<double> one = 1;
    take("sample_temperature", config.temperature ? config.temperature : one,
         settings.sample_temperature);
    take("sample_top_k", config.top_k, settings.sample_top_k);
    take("sample_top_p", config.top_p, settings.sample_top_p);
    take("sample_min_p", config.min_p, settings.sample_min_p);
    if (!config.top_k && settings.sample_top_k == 0 && !is_given("sample_top_k") &&
        settings.sample_temperature > 0)
      said.push_back("top_k off (transformers: 50)");
  }
  if (!config.unread.empty())
    said.push_back(fmt::format("not used: {}", fmt::join(config.unread, " ")));
  if (said.empty()) return {};
  return {fmt::format("{}: {}", config.is_there ? kFile : "no generation_config.json",
                      fmt::join(said, ", "))};
}

}  // namespace zero::launcher
