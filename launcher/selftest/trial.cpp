#include "launcher/selftest/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "launcher/data/token_file.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/setting_table.h"

namespace zero::launcher {
namespace {

// A part of them names files, prompts and hosts, which are nobody's business.
bool is_private(const Setting& setting) {
  static const std::vector<std::string> keys = {"data", "eval_data", "init_from",
                                                "hosts"};
  return setting.group == "output" || setting.group == "tests" ||
         std::ranges::count(keys, setting.key) > 0;
}

bool has_size(const Settings& asked) {
  const Settings defaults;
  return std::ranges::any_of(setting_table(), [&](const Setting& setting) {
    return setting.group == "model" && setting.key != "model" &&
           setting.key != "dropout" && setting.key != "init_from" &&
           setting.value(asked) != setting.value(defaults);
  });
}

std::string smallest_preset(const ModelFamily& family) {
  const auto numel = [&](const auto& preset) {
    const ModelShape shape{complete_config(family, preset.second), family.keys};
    return shape.layers() * shape.dim() * shape.dim();
  };
  return family.presets.empty()
             ? ""
             : std::ranges::min_element(family.presets, {}, numel)->first;
}

void shrink_model(const ModelFamily& family, Trial& trial) {
  constexpr int64_t kMostLayers = 2, kLongest = 32,
                    kTextVocab = data::TokenFile::kTextVocab;
  Settings& settings = trial.settings;
  if (!has_size(settings)) settings.preset = smallest_preset(family);
  const ModelShape shape = new_shape(family, settings);
  const auto change = [&](const char* name, int64_t before, int64_t after,
                          int64_t& setting) {
    setting = after;
    trial.changes.push_back(fmt::format("{} {} -> {}", name, before, after));
  };
  if (shape.layers() > kMostLayers)
    change("layers", shape.layers(), kMostLayers, settings.layers);
  if (shape.seq_len > kLongest)
    change("seq_len", shape.seq_len, kLongest, settings.seq_len);
  if (shape.vocab() != 0 && shape.vocab() != kTextVocab)
    change("vocab", shape.vocab(), kTextVocab, settings.vocab);
}

// What was asked for and is otherwise now, but for sizes of the model.
void tell_changes(const Settings& asked, Trial& trial) {
  const Settings defaults;
  static const std::vector<std::string> told = {"layers", "seq_len", "vocab", "preset"};
  for (const Setting& setting : setting_table()) {
    const auto before = setting.value(asked), after = setting.value(trial.settings);
    const bool was_asked = before != setting.value(defaults);
    if (!was_asked || before == after || std::ranges::count(told, setting.key) > 0)
      continue;
    trial.changes.push_back(
        is_private(setting)
            ? setting.key + " is left out"
            : fmt::format("{} {} -> {}", setting.key, word_of(before), word_of(after)));
  }
}

}  // namespace

Trial make_trial(const Settings& asked, const ModelFamilies& models, int num_gpus) {
  const Settings defaults;
  Trial trial{asked, {}};
  Settings& settings = trial.settings;
  nlohmann::json without = to_json(asked);
  for (const Setting& setting : setting_table())
    if (is_private(setting)) without.erase(setting.key);
  settings = settings_from_json(without, "settings");
  shrink_model(*find_family(models, settings.model), trial);

  constexpr int kMostRanks = 4;
  settings.steps = Trial::kSteps;
  settings.save_every = {.steps = Trial::kHalf, .seconds = 0};
  settings.eval_every = Trial::kHalf;
  settings.eval_samples = 8;
  settings.global_batch = 8;
  settings.micro_batch = 2;  // one pass for each of four ranks
  settings.deterministic = true;
  settings.share_gpu = asked.share_gpu || (settings.device != "cpu" && num_gpus > 0 &&
                                           num_gpus < kMostRanks);
  settings.ranks = 0;
  settings.time_limit = 0;
  settings.schedule = defaults.schedule;
  settings.min_lr = defaults.min_lr;
  settings.warmup_steps = settings.decay_steps = 0;
  settings.grad_dtype = defaults.grad_dtype;
  tell_changes(asked, trial);
  return trial;
}

std::vector<std::string> told_settings(const Settings& settings) {
  const Settings defaults;
  std::vector<std::string> told;
  for (const Setting& setting : setting_table()) {
    const auto value = setting.value(settings);
    if (!is_private(setting) && value != setting.value(defaults))
      told.push_back(fmt::format("{} = {}", setting.key, word_of(value)));
  }
  return told;
}

std::string text_of_trial(int seed, int64_t bytes) {
  const std::string words = "the quick brown fox jumps over the lazy dog ";
  std::mt19937 random(seed);
  std::string text;
  while (std::ssize(text) < bytes)
    text += words[(text.size() + random() % 8 / 7) % words.size()];
  return text;
}

}  // namespace zero::launcher
