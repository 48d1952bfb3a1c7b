#include "tests/fuzz/settings_claims.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "launcher/settings/config.h"
#include "tests/fuzz/target.h"
#include "tests/launcher/settings/configs.h"
#include "zero/errors.h"

namespace zero::fuzz {
namespace {

using launcher::Settings;
using Words = std::vector<std::string>;

Settings read(const launcher::CommandLine& line, const Words& environment) {
  static const ModelFamilies models = launcher::some_models();
  launcher::ConfigContext context;
  context.may_start_ranks = true;
  context.is_complete = false;
  context.models = &models;
  return launcher::read_settings(line, environment, context);
}

launcher::CommandLine with_config(const std::string& text) {
  static const launcher::TempFolder folder;
  launcher::CommandLine line;
  line.config_file = folder.write("run.toml", text);
  return line;
}

// Nothing: they were refused.
std::optional<Settings> accepted(const launcher::CommandLine& line,
                                 const Words& environment) {
  try {
    return read(line, environment);
  } catch (const Error& error) {
    claim(error.code() == ExitCode::kUsage, "what a user wrote is a usage error");
    claim(!error.problem().empty(), "an error says what is wrong");
    return std::nullopt;
  }
}

}  // namespace

void claim_settings(const launcher::CommandLine& line, const Words& environment) {
  const auto settings = accepted(line, environment);
  if (!settings) return;
  const auto json = nlohmann::json::parse(to_json(*settings).dump());
  claim(launcher::settings_from_json(json, "a checkpoint") == *settings,
        "a checkpoint gives the settings back");
  claim(read(with_config(to_toml(*settings)), {}) == *settings,
        "--print-config gives the settings back");
}

void claim_config(const std::string& text) { claim_settings(with_config(text), {}); }

}  // namespace zero::fuzz
