#include "launcher/selftest/lab.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "checkpoint/error.h"
#include "checkpoint/format.h"
#include "launcher/data/token_file.h"
#include "launcher/process/mpirun.h"
#include "launcher/process/process.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/setting_table.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;

constexpr double kRunLimit = 300;  // seconds that a run may take; it is none of the
                                   // promises

[[noreturn]] void refuse_folder(const std::string& problem) {
  throw Error(ExitCode::kCheckpoint, problem, "TMPDIR",
              "TMPDIR=DIR: a folder that is there and may be written");
}

checkpoint::OwnFolder make_folder() try {
  return {fs::temp_directory_path(), checkpoint::temporary_name("selftest")};
} catch (const checkpoint::CheckpointError& error) {
  refuse_folder(error.problem());
} catch (const fs::filesystem_error& error) {
  refuse_folder("there is no folder for files that go: " + error.code().message());
}

// The line that says what went wrong: ours, else the last one.
std::string reason_in(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("zero: ")) return line.substr(6);
    if (line.find_first_not_of(" -\t") != line.npos) last = line;
  }
  return last;
}

// A part of them names files, prompts and hosts, which are nobody's business.
bool is_private(const Setting& setting) {
  static const std::vector<std::string> keys = {"data",        "eval_data", "tokenizer",
                                                "token_cache", "python",    "init_from",
                                                "adapter",     "hosts"};
  return setting.group == "output" || setting.group == "tests" ||
         std::ranges::count(keys, setting.key) > 0;
}

bool is_set(const Setting& setting, const Settings& settings) {
  static const Settings defaults;
  return setting.value(settings) != setting.value(defaults);
}

bool has_size(const Settings& asked) {
  return std::ranges::any_of(setting_table(), [&](const Setting& setting) {
    return setting.group == "model" && setting.key != "model" &&
           setting.key != "dropout" && setting.key != "init_from" &&
           is_set(setting, asked);
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
  if (family.task != Task::kLanguage)
    throw Error(ExitCode::kUsage, "selftest is for models of language",
                "--model " + family.name, "another --model");
  settings.parts.clear();
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
  static const std::vector<std::string> told = {"layers", "seq_len", "vocab", "preset"};
  for (const Setting& setting : setting_table()) {
    const auto before = setting.value(asked), after = setting.value(trial.settings);
    if (!is_set(setting, asked) || before == after ||
        std::ranges::count(told, setting.key) > 0)
      continue;
    trial.changes.push_back(
        is_private(setting)
            ? setting.key + " is left out"
            : fmt::format("{} {} -> {}", setting.key, word_of(before), word_of(after)));
  }
}

}  // namespace

Lab::Lab(const Settings& settings, std::vector<std::string> environment)
    : folder_(make_folder()), environment_(std::move(environment)) {
  std::erase_if(environment_,
                [](const std::string& entry) { return entry.starts_with("ZERO_"); });
  const auto more = mpirun_variables(environment_, geteuid() == 0);
  environment_.insert(environment_.end(), more.begin(), more.end());
  const auto write = [&](const char* name, const std::string& text) {
    checkpoint::write_text(folder_.folder(), name, text, checkpoint::system_io());
  };
  write("data.txt", text_of_trial(1, 20'000));
  write("eval.txt", text_of_trial(2, 5'000));
  Settings with_data = settings;
  with_data.data = {path("data.txt")};
  with_data.eval_data = {path("eval.txt")};
  write("run.toml", to_toml(with_data));
}

void Lab::train(const std::string& run, int num_ranks,
                const std::vector<std::string>& flags) const {
  std::vector<std::string> words = {"train", "--config", path("run.toml"), "--out",
                                    path(run)};
  words.insert(words.end(), flags.begin(), flags.end());
  start(num_ranks, std::move(words));
}

std::string Lab::eval(const std::string& run) const {
  return start(1, {"eval", "--from", path(run), "--threads=1"});
}

std::string Lab::start(int num_ranks, std::vector<std::string> words) const {
  const std::string program = path_of_this_program();
  if (num_ranks == 1) {
    words.insert(words.begin(), program);
    words.push_back("--ranks=1");
  } else {
    words = mpirun_words({num_ranks, "", words, ""}, program, environment_);
  }
  const ChildOutcome outcome = run_child(words, environment_, kRunLimit);
  if (outcome.is_late)
    throw Error(
        ExitCode::kEnvironment,
        fmt::format("{} rank(s) were not done in {:.0f} s", num_ranks, kRunLimit));
  if (outcome.code == 127)
    throw Error(ExitCode::kEnvironment, "mpirun cannot be started", "selftest",
                "install OpenMPI (openmpi-bin)");
  if (outcome.code != 0)
    throw Error(ExitCode::kTraining,
                fmt::format("{} rank(s) ended with code {}: {}", num_ranks, outcome.code,
                            reason_in(outcome.text)));
  return outcome.text;
}

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
  settings.epochs = 0;
  settings.save_every = {.steps = Trial::kHalf, .seconds = 0};
  settings.eval_every = Trial::kHalf;
  settings.eval_samples = 8;
  settings.eval_fraction = 0;
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
  std::vector<std::string> told;
  for (const Setting& setting : setting_table())
    if (!is_private(setting) && is_set(setting, settings))
      told.push_back(
          fmt::format("{} = {}", setting.key, word_of(setting.value(settings))));
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
