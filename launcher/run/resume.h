#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/saved_run.h"
#include "zero/errors.h"
#include "zero/save_load.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

// Which checkpoints a run may start from.
struct ResumePlan {
  std::vector<std::string> folders;  // to be tried in this order; empty: a fresh start
  std::vector<std::string> passed_over;  // why newer ones are not among them
  bool may_pass_over = false;            // whether the next is tried when one is damaged
};

// What `--resume` = auto, must, never or DIR means for the run's folder `out`.
//
// Throws Error(kUsage) where the flag and the folders do not fit together, and
// Error(kCheckpoint) when checkpoints are there and none can be used.
ResumePlan plan_resume(const std::string& resume, const std::string& out);

// "runs/a/step_000000000040/" -> 40; nothing when the name is no step's.
std::optional<int64_t> step_named_by(const std::string& path);

// The newest complete checkpoint of a run's folder; "": there is none. For each newer one
// that is damaged, `passed_over` tells why. Throws Error(kCheckpoint) when all are.
std::string newest_of_run(const std::string& folder,
                          std::vector<std::string>* passed_over = nullptr);

// The same, or the step's folder itself. Throws Error(kUsage) that names `flag`, with
// what it may name, when there is none.
inline constexpr char kRunOrStep[] = "a run's folder or one of its steps";
std::string find_checkpoint(const std::string& folder, const std::string& flag,
                            const std::string& allowed = kRunOrStep,
                            std::vector<std::string>* passed_over = nullptr);

// The same, with a line on stderr for each that was passed over.
std::string find_and_tell(const std::string& folder, const std::string& flag,
                          const std::string& allowed = kRunOrStep);

// The error for a run all of whose checkpoints are damaged.
[[noreturn]] void refuse_all(const std::vector<std::string>& reasons,
                             const std::string& out);

// The error for a step that is not there any more.
Error removed_meanwhile(const std::string& folder);

// Do something with a step's folder. Where it throws a FileError and the folder is not
// there any more, throws removed_meanwhile().
void use_step(const std::string& folder, const std::function<void()>& use);

// A list as people want to read it: its beginning, and how many more there are.
std::vector<std::string> first_few(std::vector<std::string> lines);

// A checkpoint that this user may not read is not damaged: throws FileError.
void refuse_unreadable(const std::string& folder);

// What a checkpoint may lack and have, as settings say.
LoadOptions allowances_of(const Settings& settings);

// What of that came true, a line for each; empty: nothing.
std::vector<std::string> differences_of(const SavedState& state);

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
// `read_frozen` is called before a checkpoint is loaded that is without its frozen
// parameters, or whose run will be; `moved`: --init-from names another place now.
std::optional<Resumed> resume(
    Engine& engine, const SavedRun& now,
    const std::function<void(const FrozenSource& source, bool moved)>& read_frozen);

}  // namespace zero::launcher
