#include "checkpoint/find.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/error.h"
#include "checkpoint/inventory.h"

namespace zero::checkpoint {
namespace {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 || errno != ENOENT;
}

// Through the run's folder, so that a link named like a step is not followed.
Folder open_step(const StepFolder& folder) {
  const auto [run, name] = split_path(folder.path);
  return Folder(run).subfolder(name);
}

std::string first_flaw(const StepFolder& folder) {
  const Folder opened = open_step(folder);
  const Manifest manifest = load_manifest(opened);
  if (manifest.step != folder.step) {
    return to_string(Damage{
        opened.path_of(kManifestFile), "",
        "is of step " + std::to_string(manifest.step) + ", which is not the folder's"});
  }
  const auto damages = check_files(opened, manifest);
  if (damages.empty()) return "";
  const std::string more =
      damages.size() == 1 ? "" : " (and " + std::to_string(damages.size() - 1) + " more)";
  return to_string(damages.front()) + more;
}

}  // namespace

std::vector<StepFolder> list_steps(const std::string& run) {
  if (!exists(run)) return {};
  std::vector<StepFolder> steps;
  const Folder folder(run);
  for (const auto& name : folder.names()) {
    if (const auto step = step_of(name)) steps.push_back({*step, folder.path_of(name)});
  }
  std::sort(steps.begin(), steps.end(),
            [](const StepFolder& a, const StepFolder& b) { return a.step < b.step; });
  return steps;
}

std::string flaw_of(const StepFolder& folder) {
  try {
    return first_flaw(folder);
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

std::optional<StepFolder> newest_complete(const std::string& run,
                                          std::vector<std::string>* passed_over) {
  auto steps = list_steps(run);
  for (; !steps.empty(); steps.pop_back()) {
    const std::string flaw = flaw_of(steps.back());
    if (flaw.empty()) return steps.back();
    if (passed_over != nullptr) passed_over->push_back(flaw);
  }
  return std::nullopt;
}

}  // namespace zero::checkpoint
