#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/files.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/resume.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using checkpoint::StepFolder;

const std::string kKeywords =
    "auto (the newest one, if any), must (the newest one), never, or a folder with "
    "checkpoints";

bool is_same_folder(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

ResumePlan plan_auto(const std::string& out) {
  ResumePlan plan;
  plan.may_pass_over = true;
  std::vector<StepFolder> steps = checkpoint::list_steps(out);
  for (; !steps.empty(); steps.pop_back()) {
    const std::string flaw = checkpoint::flaw_of(steps.back());
    if (flaw.empty()) {
      plan.folders.push_back(steps.back().path);
    } else if (plan.folders.empty()) {
      refuse_unreadable(steps.back().path);
      plan.passed_over.push_back(flaw);
    }
  }
  if (plan.folders.empty() && !plan.passed_over.empty())
    refuse_all(plan.passed_over, out);
  return plan;
}

// Two histories in one folder: a later `auto` could not tell them apart.
void check_history(const std::string& chosen, const std::string& out,
                   const std::vector<StepFolder>& steps) {
  if (steps.empty() || is_same_folder(steps.back().path, chosen)) return;
  const bool is_from_here = is_same_folder(checkpoint::split_path(chosen).folder, out);
  throw Error(ExitCode::kUsage,
              fmt::format("--resume {} would start beside the {}checkpoint of step {}",
                          chosen, is_from_here ? "newer " : "", steps.back().step),
              out, "another --out; or --resume auto, to continue what is there");
}

}  // namespace

ResumePlan plan_resume(const std::string& resume, const std::string& out) {
  if (resume == "auto") return plan_auto(out);
  const std::vector<StepFolder> steps = checkpoint::list_steps(out);
  if (resume == "must") {
    if (!steps.empty()) return {{steps.back().path}, {}, false};
    throw Error(ExitCode::kUsage, "there is no checkpoint, and --resume must wants one",
                out, "--resume auto, or the right --out");
  }
  if (resume == "never") {
    if (steps.empty()) return {};
    throw Error(ExitCode::kUsage,
                fmt::format("{} checkpoint(s) are there, and --resume never wants none",
                            steps.size()),
                out, "--resume auto, or another --out");
  }
  ResumePlan plan;
  plan.folders = {find_checkpoint(resume, "--resume", kRunOrStep, &plan.passed_over)};
  check_history(plan.folders.front(), out, steps);
  return plan;
}

std::optional<int64_t> step_named_by(const std::string& path) {
  return checkpoint::step_of(checkpoint::split_path(path).name);
}

std::string newest_of_run(const std::string& folder,
                          std::vector<std::string>* passed_over) {
  std::vector<std::string> damaged;
  const auto newest = checkpoint::newest_complete(folder, &damaged);
  if (!damaged.empty()) {
    const auto steps = checkpoint::list_steps(folder);
    if (!steps.empty() && (!newest || steps.back().step > newest->step))
      refuse_unreadable(steps.back().path);
    if (!newest) refuse_all(damaged, folder);
  }
  if (passed_over) *passed_over = damaged;
  return newest ? newest->path : "";
}

std::string find_checkpoint(const std::string& folder, const std::string& flag,
                            const std::string& allowed,
                            std::vector<std::string>* passed_over) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    throw Error(ExitCode::kUsage, no_folder(flag, folder), folder,
                flag == "--resume" ? kKeywords : allowed);
  }
  if (step_named_by(folder)) return folder;
  const std::string newest = newest_of_run(folder, passed_over);
  if (!newest.empty()) return newest;
  throw Error(ExitCode::kUsage,
              fmt::format("{} names a folder without checkpoints", flag), folder,
              allowed);
}

std::string find_and_tell(const std::string& folder, const std::string& flag,
                          const std::string& allowed) {
  std::vector<std::string> passed_over;
  const std::string found = find_checkpoint(folder, flag, allowed, &passed_over);
  for (const std::string& reason : first_few(passed_over)) warn("passed over: " + reason);
  return found;
}

void refuse_all(const std::vector<std::string>& reasons, const std::string& out) {
  std::string text = "every checkpoint is damaged:";
  for (const std::string& reason : first_few(reasons)) text += "\n  - " + reason;
  throw Error(ExitCode::kCheckpoint, text, out,
              "restore one of them; or another --out, to start anew");
}

void refuse_unreadable(const std::string& folder) {
  const auto refuse_if_unreadable = [](const fs::path& path, int how) {
    if (::access(path.c_str(), how) != 0 && errno == EACCES)
      throw_unreadable(path, "read", errno);
  };
  refuse_if_unreadable(folder, R_OK | X_OK);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    refuse_if_unreadable(entry.path(), R_OK);
}

std::vector<std::string> first_few(std::vector<std::string> lines) {
  constexpr size_t kFew = 5;
  if (lines.size() <= kFew) return lines;
  const size_t more = lines.size() - kFew;
  lines.resize(kFew);
  lines.push_back(fmt::format("... and {} more", more));
  return lines;
}

}  // namespace zero::launcher
