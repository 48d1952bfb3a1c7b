#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/saved_run.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

struct Resumed {
  std::string folder;  // the checkpoint
  Progress progress;
  int64_t threads = 0;  // SavedRun::threads
};

// Load what `--resume` asks for; nothing: a fresh start. Collective.
//
// Under `auto` damaged checkpoints are passed over, each with a line that names file,
// parameter and reason. Throws as plan_resume() and check_same_run() do, and
// CheckpointError for a damaged checkpoint that may not be passed over.
std::optional<Resumed> resume(Engine& engine, const SavedRun& now);

}  // namespace zero::launcher
