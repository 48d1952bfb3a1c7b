#include "checkpoint/purge.h"

#include <cerrno>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"

namespace zero::checkpoint {
namespace {

void unname(const Folder& run, const std::string& name, Io& io) {
  const std::string temporary = temporary_name("purged");
  if (io.rename(run.descriptor(), name.c_str(), temporary.c_str()) != 0) {
    throw_errno(run.path_of(name), "rename to " + temporary, errno);
  }
}

}  // namespace

int purge(const std::string& run, int keep, Io& io) {
  if (keep < 1) throw CheckpointError(run, "", "at least one checkpoint must be kept");
  auto steps = list_steps(run);
  for (int num_kept = 0; !steps.empty() && num_kept < keep; steps.pop_back()) {
    if (flaw_of(steps.back()).empty()) ++num_kept;
  }
  const Folder folder(run);
  for (const auto& step : steps) unname(folder, step_folder(step.step), io);
  if (!steps.empty()) folder.sync(io);  // names go before files, also on the disk
  for (const auto& name : folder.names()) {
    if (name.starts_with(kTemporaryPrefix)) folder.remove(name, io);
  }
  return static_cast<int>(steps.size());
}

}  // namespace zero::checkpoint
