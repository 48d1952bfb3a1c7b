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
  ModelShape tiny;
  tiny.layers = 3, tiny.dim = 64, tiny.heads = 4, tiny.seq_len = 32;
  ModelShape small;
  small.layers = 12, small.dim = 768, small.heads = 12, small.seq_len = 1024,
  small.vocab = 50257;
  ModelFamily family;
  family.name = "gpt2";
  family.presets = {{"gpt2-tiny", tiny}, {"gpt2-124m", small}};
  family.default_preset = "gpt2-tiny";
  return {family};
}

Settings settings_of(const Words& words) {
  const ModelFamilies models = some_models();
  ConfigContext context;
  context.num_ranks = words.num_ranks;
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
