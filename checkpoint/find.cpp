#include "checkpoint/find.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/verify.h"

namespace zero::checkpoint {
namespace {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 || errno != ENOENT;
}

// A run that removes its only checkpoint for a newer one may show neither to a look that
// comes in between.
std::vector<StepFolder> list_patiently(const std::string& run) {
  constexpr int kLooks = 3;
  std::vector<StepFolder> steps;
  for (int i = 0; i < kLooks && steps.empty(); ++i) steps = list_steps(run);
  return steps;
}

// Such as links to checkpoints that are not there any more.
void add_misnamed_behind(int64_t step, const Folder& run,
                         std::vector<std::string>& flaws) {
  for (const int64_t other : misnamed_steps(run))
    if (other > step) flaws.push_back(flaw_of(run, other));
}

}  // namespace

std::vector<StepFolder> list_steps(const std::string& run) {
  return exists(run) ? list_steps(Folder(run)) : std::vector<StepFolder>();
}

std::vector<StepFolder> list_steps(const Folder& run) {
  std::vector<StepFolder> steps;
  for (const auto& name : run.names()) {
    const auto step = step_of(name);
    if (step && run.leads_to_folder(name))
      steps.push_back({*step, run.path_of(name), !run.has_folder(name)});
  }
  std::ranges::sort(steps, {}, &StepFolder::step);
  return steps;
}

std::string flaw_of(const StepFolder& folder) {
  try {
    return flaw_of(Folder(split_path(folder.path).folder), folder.step);
  } catch (const CheckpointError& error) {
    return error.without_cure();
  }
}

std::string flaw_of(const Folder& run, int64_t step) {
  try {
    const std::string name = step_folder(step);
    const Folder opened =
        run.has_folder(name) ? run.subfolder(name) : Folder(run.path_of(name));
    const auto damages = check_files(opened, load_manifest(opened));
    if (damages.empty()) return "";
    const std::string first = damages.front().without_cure();
    const size_t num_more = damages.size() - 1;
    return num_more == 0 ? first : text_of(first, " (and ", num_more, " more)");
  } catch (const CheckpointError& error) {
    return error.without_cure();
  }
}

std::vector<int64_t> misnamed_steps(const Folder& run) {
  std::vector<int64_t> steps;
  for (const auto& name : run.names()) {
    const bool is_none = step_of(name) && !run.leads_to_folder(name);
    // And not just removed by a run that goes on.
    if (is_none && run.has(name)) steps.push_back(*step_of(name));
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<StepFolder> newest_complete(const std::string& run,
                                          std::vector<std::string>* passed_over) {
  constexpr int kMostLists = 100;
  std::vector<std::string> flaws;
  auto steps = list_patiently(run);
  for (int num_lists = 1; !steps.empty();) {
    const std::string flaw = flaw_of(steps.back());
    if (flaw.empty()) break;
    if (!exists(steps.back().path) && num_lists++ < kMostLists) {  // a run goes on
      flaws.clear();
      steps = list_patiently(run);
    } else {
      flaws.push_back(flaw);
      steps.pop_back();
    }
  }
  const auto newest = steps.empty() ? std::nullopt : std::optional(steps.back());
  if (passed_over != nullptr) {
    passed_over->insert(passed_over->end(), flaws.begin(), flaws.end());
    if (newest) add_misnamed_behind(newest->step, Folder(run), *passed_over);
  }
  return newest;
}

}  // namespace zero::checkpoint
