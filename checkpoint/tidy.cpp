#include "checkpoint/tidy.h"

#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "checkpoint/own_files.h"

namespace zero::checkpoint {
namespace {

// True: the kill came between the two renames of a replacement, and is undone.
bool takes_name_back(const OpenRun& run, const std::string& name) {
  const auto step = replaced_step_of(name);
  if (!step || run.folder().has(step_folder(*step))) return false;
  run.rename(name, step_folder(*step));
  return true;
}

std::vector<int64_t> steps_to_remove(const OpenRun& run, const Retention& retention,
                                     int64_t newest) {
  std::vector<int64_t> old;
  int num_whole = 1;  // the newest
  auto steps = list_steps(run.folder());
  for (; !steps.empty(); steps.pop_back()) {
    const int64_t step = steps.back().step;
    if (step >= newest || steps.back().is_link) continue;
    const bool stays = step == retention.best ||
                       (retention.keep_every > 0 && step % retention.keep_every == 0);
    if (num_whole < retention.keep) {
      num_whole += flaw_of(run.folder(), step).empty();
    } else if (!stays) {
      old.push_back(step);
    }
  }
  return old;
}

}  // namespace

std::vector<std::string> tidy(const OpenRun& run) {
  std::vector<std::string> removed;
  for (const std::string& name : run.folder().names()) {
    if (!is_temporary(name) || takes_name_back(run, name)) continue;
    if (run.remove(name)) removed.push_back(name);
  }
  run.folder().sync(run.io());
  return removed;
}

std::string set_aside(const OpenRun& run, int64_t step) {
  const std::string name = step_folder(step);
  const std::string aside = free_name(run.folder(), name + ".damaged");
  run.rename(name, aside);
  run.folder().sync(run.io());
  return aside;
}

int purge(const OpenRun& run, const Retention& retention, int64_t newest) {
  if (retention.keep < 1)
    throw CheckpointError(run.path(), "", "at least one checkpoint must be kept");
  const std::vector<int64_t> old = steps_to_remove(run, retention, newest);
  std::vector<std::string> unnamed;
  for (const int64_t step : old) {
    unnamed.push_back(temporary_name("purged"));
    run.rename(step_folder(step), unnamed.back());
  }
  if (!old.empty()) run.folder().sync(run.io());  // names go first, also on the disk
  for (size_t i = 0; i < old.size(); ++i) {
    const std::string left = step_folder(old[i]) + ".left";
    if (!run.remove(unnamed[i]) && !run.folder().has(left)) run.rename(unnamed[i], left);
  }
  return static_cast<int>(old.size());
}

}  // namespace zero::checkpoint
