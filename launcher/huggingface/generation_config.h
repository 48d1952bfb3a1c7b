#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/settings/settings.h"

namespace zero::launcher {

// What generation_config.json of a folder says of texts that a model makes.
struct GenerationConfig {
  bool is_there = false;
  bool samples = false;  // do_sample; else the likeliest tokens are taken
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  // eos_token_id, else that of config.json: behind one of these a text ends.
  std::vector<int64_t> ends;
  std::vector<std::string> unread;  // keys that ask for what is not done here
};

// Files that are not there say nothing. Throws CheckpointError for one that cannot be
// used, by key.
GenerationConfig read_generation_config(const std::string& folder);

// Take over what is not given. Without the file a folder of Hugging Face is greedy, and
// settings of a run stay as they are. Returns lines for people.
std::vector<std::string> take_over(
    const GenerationConfig& config, bool is_model_folder,
    const std::function<bool(const std::string& key)>& is_given, Settings& settings);

}  // namespace zero::launcher
