#include "launcher/look/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "engine/watch/activity.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/resume.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using checkpoint::VerifyReport;
using nlohmann::json;

constexpr const char* kCure = "DIR: a run's folder or one of its steps";

// Of all files; what cannot be asked for its size is left to verify().
int64_t bytes_in(const checkpoint::Folder& folder) {
  int64_t bytes = 0;
  for (const std::string& name : folder.names()) {
    try {
      bytes += folder.size_of(name);
    } catch (const checkpoint::CheckpointError&) {
      continue;
    }
  }
  return bytes;
}

json to_json(const std::string& folder, const VerifyReport& report) {
  json damages = json::array();
  for (const checkpoint::CheckpointError& damage : report.damages) {
    damages.push_back(
        {{"file", damage.file()}, {"fqn", damage.fqn()}, {"problem", damage.problem()}});
  }
  return {{"folder", folder},
          {"sound", report.is_sound()},
          {"files", report.num_files},
          {"bytes", report.num_bytes},
          {"damages", damages}};
}

}  // namespace

std::vector<std::string> folders_to_verify(const std::string& dir) {
  std::error_code error;
  if (!std::filesystem::is_directory(dir, error))
    throw Error(ExitCode::kUsage, no_folder("DIR", dir), dir, kCure);
  if (step_named_by(dir)) return {dir};
  std::map<int64_t, std::string> steps;
  const checkpoint::Folder run(dir);
  for (const std::string& name : run.names())
    if (const auto step = checkpoint::step_of(name)) steps[*step] = run.path_of(name);
  std::vector<std::string> folders;
  for (const auto& [step, path] : steps) folders.push_back(path);
  // A step under another name.
  if (folders.empty() && is_of_run(dir)) return {dir};
  if (folders.empty())
    throw Error(ExitCode::kUsage,
                is_model_folder(dir) ? "safetensors have no hashes to compare with"
                                     : "there is no checkpoint",
                dir, kCure);
  return folders;
}

VerifyReport verify_folder(const std::string& folder) {
  try {
    Activity::Stretch stretch("verify " + checkpoint::split_path(folder).name);
    stretch.expect(bytes_in(checkpoint::Folder(folder)));
    return checkpoint::verify(folder);
  } catch (const checkpoint::CheckpointError& error) {
    return {.damages = {error}};
  }
}

std::string to_text(const VerifyReport& report) {
  if (report.is_sound())
    return fmt::format("sound: {} in {} files", short_bytes(report.num_bytes),
                       report.num_files);
  std::string text = fmt::format("{} damage(s)", report.damages.size());
  for (const checkpoint::CheckpointError& damage : report.damages)
    text += "\n  - " + printable(damage.without_cure());
  return text;
}

std::string to_line(const std::vector<std::string>& folders,
                    const std::vector<VerifyReport>& reports,
                    const FrozenTensors& frozen) {
  json all = json::array();
  for (size_t i = 0; i < folders.size(); ++i)
    all.push_back(to_json(folders[i], reports[i]));
  const bool is_sound = std::ranges::all_of(reports, &VerifyReport::is_sound);
  return json_text(
      json{{"sound", is_sound}, {"checkpoints", all}, {"frozen", to_json(frozen)}});
}

}  // namespace zero::launcher
