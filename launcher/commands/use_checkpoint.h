#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/verbs.h"
#include "launcher/data/batches.h"
#include "launcher/model.h"
#include "launcher/run/runner.h"
#include "launcher/run/saved_run.h"
#include "launcher/settings/settings.h"
#include "zero/engine.h"
#include "zero/errors.h"

// What the verbs that use a checkpoint's model have in common: eval, generate, predict.
namespace zero::launcher {

class Tokenizer;

// What a checkpoint says about itself; the same on every rank. A folder of Hugging Face
// is one without a run.
struct FoundCheckpoint {
  std::string folder;
  SavedRun run;
  bool is_model_folder = false;
};

// A model out of a checkpoint, for use and not for training: its weights are sharded over
// the ranks, without gradients and optimizer state.
struct LoadedModel {
  FoundCheckpoint checkpoint;
  const ModelFamily* family = nullptr;
  Settings settings;  // the checkpoint's, with what the command line changes
  ModelShape shape;
  BatchPlan batch;    // a pass for each rank
  TextsAtOnce texts;  // that will be made; no rows: none
  bool is_first_of_host = true;
  int64_t step = 0;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Runner> runner;
};

// Find the checkpoint named by --from, read settings from it and the command line, load
// the model, use it. `prepare` comes before anything is loaded. Returns the exit code.
int use_checkpoint(
    const std::string& verb, const VerbCall& call,
    const std::function<ExitCode(LoadedModel& loaded)>& use,
    const std::function<void(LoadedModel& loaded, Ranks& ranks)>& prepare = {});

// Throws Error(kUsage), which tells the verbs for the other task.
void require_task(const LoadedModel& loaded, Task task, const std::string& verb);

// The folder in which the run of a checkpoint is.
std::string run_of(const FoundCheckpoint& checkpoint);

// The tokenizer.json of --tokenizer, of a folder of Hugging Face, or of the run; "":
// there is none, or tokens are bytes.
std::string tokenizer_path(const LoadedModel& loaded);

// The one at that path; null: there is none. Throws as Tokenizer().
std::unique_ptr<Tokenizer> open_tokenizer(const LoadedModel& loaded);

// --data, else what the run itself was evaluated on, else what it was trained on.
const std::vector<std::string>& data_for(const CommandLine& line,
                                         const Settings& settings);

// Settings of a process that holds a model, whatever it does with it.
inline const std::string kMachine =
    "ranks hosts device share_gpu tf32 threads adam_threads bind hang_timeout "
    "host_memory device_memory ignore_plan dtype master offload device_state_fraction "
    "units shard_over pin prefetch wrap_min_numel reshard_after_forward allow_extra "
    "allow_missing seq_len "
    "model_config adapter chaos delay trace_comm deterministic recompute";

inline constexpr char kCheckpoints[] = "the checkpoint's, then ";

inline const VerbLine kDirLine = {
    "DIR, --from DIR",
    "a step's folder, or a run's: its newest checkpoint; or a "
    "model's folder of Hugging Face"};

}  // namespace zero::launcher
