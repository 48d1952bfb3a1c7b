#include "tests/launcher/settings/configs.h"

#include <cstdlib>
#include <filesystem>
#include <iterator>

namespace zero::launcher {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "zero_XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

std::string TempFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name)) << text;
  return path(name);
}

std::string TempFolder::read(const std::string& name) const {
  std::ifstream file(path(name));
  return {std::istreambuf_iterator<char>(file), {}};
}

ModelFamilies some_models() {
  ModelFamily family;
  family.name = "gpt2";
  family.keys = {.layers = "n_layer",
                 .dim = "n_embd",
                 .heads = "n_head",
                 .kv_heads = "n_kv_head",
                 .positions = "n_positions"};
  family.learns_positions = true;
  family.presets = {
      {"gpt2-tiny", {{"n_layer", 3}, {"n_embd", 64}, {"n_head", 4}, {"n_positions", 32}}},
      {"gpt2-124m",
       {{"n_layer", 12},
        {"n_embd", 768},
        {"n_head", 12},
        {"n_positions", 1024},
        {"vocab_size", 50257}}}};
  family.default_preset = "gpt2-tiny";
  return {family};
}

Settings settings_of(const Words& words) {
  const ModelFamilies models = some_models();
  ConfigContext context;
  context.num_ranks = words.num_ranks;
  context.may_begin = words.may_begin;
  context.going_on = words.going_on;
  context.base = words.base;
  context.has_gpu = words.has_gpu;
  context.models = &models;
  std::vector<std::string> flags = words.flags;
  flags.insert(flags.end(), {"--data", "d", "--out", "o"});
  return read_settings(read_command_line(flags), words.environment, context);
}

std::string complaint(const Words& words) {
  try {
    settings_of(words);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.problem() + (error.where().empty() ? "" : " (" + error.where() + ")");
  }
}

}  // namespace zero::launcher
