#include "checkpoint/verify.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/find.h"
#include "engine/errors.h"
#include "launcher/commands/verbs.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/resume.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

std::vector<std::string> folders_in(const std::string& from) {
  std::error_code error;
  if (!std::filesystem::is_directory(from, error))
    throw Error(ExitCode::kUsage, no_folder("DIR", from), from,
                "DIR: a run's folder or one of its steps");
  if (step_named_by(from)) return {from};
  std::vector<std::string> folders;
  for (const checkpoint::StepFolder& step : checkpoint::list_steps(from))
    folders.push_back(step.path);
  // A step under another name.
  if (folders.empty() && is_of_run(from)) return {from};
  if (folders.empty())
    throw Error(ExitCode::kUsage,
                is_model_folder(from) ? "safetensors have no hashes to compare with"
                                      : "there is no checkpoint",
                from, "DIR: a run's folder or one of its steps");
  return folders;
}

std::string to_text(const checkpoint::VerifyReport& report) {
  if (report.is_sound())
    return fmt::format("sound: {} in {} files", short_bytes(report.num_bytes),
                       report.num_files);
  std::string text = fmt::format("{} damage(s)", report.damages.size());
  for (const checkpoint::Damage& damage : report.damages)
    text += "\n  - " + printable(to_string(damage));
  return text;
}

json to_json(const std::string& folder, const checkpoint::VerifyReport& report) {
  json damages = json::array();
  for (const checkpoint::Damage& damage : report.damages) {
    damages.push_back(
        {{"file", damage.file}, {"fqn", damage.fqn}, {"problem", damage.problem}});
  }
  return {{"folder", folder},
          {"sound", report.is_sound()},
          {"files", report.num_files},
          {"bytes", report.num_bytes},
          {"damages", damages}};
}

checkpoint::VerifyReport verify_one(const std::string& folder) {
  try {
    return checkpoint::verify(folder);
  } catch (const checkpoint::CheckpointError& error) {
    checkpoint::VerifyReport report;
    report.damages.push_back({error.file(), error.fqn(), error.problem()});
    return report;
  }
}

int verify_all(const CommandLine& line) {
  json all = json::array();
  bool are_sound = true;
  for (const std::string& folder : folders_in(line.from)) {
    const checkpoint::VerifyReport report = verify_one(folder);
    are_sound = are_sound && report.is_sound();
    if (line.json)
      all.push_back(to_json(folder, report));
    else
      print_line(folder + ": " + to_text(report));
  }
  if (line.json) print_line(json_text(json{{"sound", are_sound}, {"checkpoints", all}}));
  return static_cast<int>(are_sound ? ExitCode::kDone : ExitCode::kCheckpoint);
}

}  // namespace

int verify(const Call& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  require_no_settings(call.line, "verify");
  return verify_all(call.line);
}

}  // namespace zero::launcher
