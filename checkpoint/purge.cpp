#include "checkpoint/purge.h"

#include <string>
#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

std::vector<int64_t> steps_to_remove(const OpenRun& run, const Retention& retention,
                                     int64_t newest) {
  std::vector<int64_t> old;
  int num_whole = 1;  // the newest
  auto steps = list_steps(run.folder());
  for (; !steps.empty(); steps.pop_back()) {
    const int64_t step = steps.back().step;
    if (step >= newest) continue;
    const bool stays = retention.keep_every > 0 && step % retention.keep_every == 0;
    if (num_whole < retention.keep) {
      num_whole += flaw_of(run.folder(), step).empty();
    } else if (!stays) {
      old.push_back(step);
    }
  }
  return old;
}

}  // namespace

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
