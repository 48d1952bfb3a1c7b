#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/no_copy.h"
#include "zero/options.h"
#include "zero/reports.h"

namespace torch::nn {
class Module;
}
namespace zero {

class Engine;

namespace checkpoint {
class OpenRun;
}

// What a checkpoint holds besides masters, the optimizer's state and buffers.
struct SavedState {
  int64_t step = 0;             // Engine::num_steps()
  std::string config = "{}";    // JSON: the caller's settings
  std::string position = "{}";  // JSON: the caller's place in the data
  // The caller's own bytes, by name; rank 0's are kept.
  std::map<std::string, std::vector<char>> user = {};
  // Of a save alone: parameters that are frozen, by ShardView::fqn, and are not saved.
  // The caller knows where they come from, and loads that before this checkpoint, with
  // these as LoadOptions::allow_missing: what it lacks keeps its values.
  std::vector<std::string> left_out = {};
  // Of load_checkpoint() alone, FQNs that it was allowed to differ in: parameters that
  // the checkpoint lacks, parameters and buffers that the model lacks.
  std::vector<std::string> missing = {}, extra = {};
  // Of load_checkpoint() alone: parameters that were frozen when the checkpoint was saved
  // and are trained now, so that their optimizer's state begins, all zeros; and the other
  // way round, so that it was dropped.
  std::vector<std::string> thawed = {}, frozen = {};
};

struct LoadOptions {
  // False: masters and buffers only, the optimizer's state stays zero, num_steps 0, and
  // the loss scale of fp16 the first.
  bool with_optimizer = true;
  // The run goes on, but the optimizer's state starts afresh, all zeros: for another
  // optimizer than the one that saved.
  bool fresh_optimizer = false;
  std::vector<std::string> allow_missing;  // FQN globs that the checkpoint need not have
  std::vector<std::string> allow_extra;    // FQN globs that the model need not have
};

// Write run/step_<step>/ and make it complete in one atomic step; returns its path.
// Collective: ranks that ask for different steps all throw Error(kDiverged).
//
// Every rank writes its own slices. Buffers that differ between ranks are stored as
// Engine::average_buffers() would make them; the engine's own stay as they are. When any
// rank fails, none has saved, what was there stays, and every rank throws the lowest
// failing rank's error. `replace`: a checkpoint of the same step is replaced instead of
// refused.
std::string save_checkpoint(Engine& engine, const std::string& run,
                            const SavedState& state, bool replace = false);

// The same into a run whose folder rank 0 holds open (others: nullptr). Nothing is made
// anew if it was moved; with a RunLock, nothing is written once the lock is lost.
std::string save_checkpoint(Engine& engine, const checkpoint::OpenRun* run,
                            const SavedState& state, bool replace = false);

struct SaveOptions {
  bool replace = false;  // a checkpoint of the same step, instead of refusing
  // A save that fails is an error of the step() that finds out: its update is done, and
  // the run may go on. False: only wait() tells, and the next save.
  bool step_throws = true;
  // Called on rank 0 once the checkpoint is there, with its path, by the thread that
  // saves; what it throws counts as the save's failure.
  std::function<void(const std::string& path)> after = {};
};

// A checkpoint that is being written beside the steps.
class Save : NoCopy {
 public:
  virtual ~Save() = default;
  // Is it over, well or not? As the last step(), wait() or save found: the same on all
  // ranks. Local.
  virtual bool is_done() const = 0;
  // Wait until it is over; its path, or what went wrong, which every rank throws.
  // Collective.
  virtual std::string wait() = 0;
  // What went wrong; null: nothing, or nobody knows yet. Local.
  virtual std::exception_ptr error() const = 0;
  // From save_async() to its end on this rank, once it is over, and what this rank's
  // thread has computed for it. Local.
  virtual double seconds() const = 0;
  virtual double cpu_seconds() const = 0;
};

// The same beside the steps that follow, which go on at once: the checkpoint is, byte for
// byte, the one that save_checkpoint() would write now. Collective.
//
// The state of a unit does not change between two updates. A thread writes it from where
// it lies, unit by unit, each behind its update, and the unit's next update waits if it
// has not been written by then. So nothing is copied, and training loses time only where
// writing takes longer than a step: StreamSeconds::saves. Buffers, `state` and the
// engine's own numbers are copied here.
//
// One save goes on at a time. Another one, wait(), load_checkpoint(), Engine::shards(),
// set_full_parameter(), masters_changed() and the destructor wait for it first. What
// earlier calls of shards() gave must not be written to before. The folder of `run` stays
// open until it is over. A failure is told by the step() that finds out, else by the next
// save; and by each wait().
std::shared_ptr<Save> save_async(Engine& engine, const std::string& run,
                                 const SavedState& state,
                                 const SaveOptions& options = {});
std::shared_ptr<Save> save_async(Engine& engine, const checkpoint::OpenRun* run,
                                 const SavedState& state,
                                 const SaveOptions& options = {});

// Read masters, the optimizer's state, buffers and the step of `folder`, whatever number
// of ranks wrote it; each rank reads only the slices it owns. Collective. The state of
// another optimizer is refused by name, and weights alone (of save_seed() or an engine
// for inference) where the optimizer's state is asked for.
//
// What the checkpoint is allowed to lack keeps its values; an engine that awaits values
// (Source::kCheckpoint) initializes it.
//
// A parameter that was frozen and is trained now begins with a state of zeros and its own
// count of updates; the state of one that is frozen now is dropped. SavedState tells.
//
// Missing, extra and misshapen FQNs are listed in one Error(kCheckpoint), before anything
// of the engine is changed; so are numbers of the engine that saved it (FORMAT.md's
// "engine") that this one does not know. Damage is a CheckpointError. Damaged bytes are
// found while reading: then every rank throws, and the engine must load something else
// before it goes on. Between backward() and step() an Error(kUsage).
SavedState load_checkpoint(Engine& engine, const std::string& folder,
                           const LoadOptions& options = {});

// Write run/step_000000000000/ with the first values of a model and no optimizer's state:
// what an engine with Source::kInit and these options (`seed`, `init`) would start with
// on any number of ranks, bit for bit. Returns the folder's path.
//
// One process does it, without an engine: a deferred parameter's values are made where
// they are written, so that no more of the model than its buffers is in memory, and one
// parameter that is replayed, or the module of one init function. Those are called more
// than once. Options::post_init is refused: it needs an engine.
// Of `state` config and position are kept. With Options::init_report, `report` becomes
// what Engine::init_report() of such an engine tells. Throws Error(kUsage) for parameters
// without a rule, and CheckpointError.
std::string save_seed(torch::nn::Module& model, const Options& options,
                      const std::string& run, const SavedState& state,
                      bool replace = false, std::vector<InitEntry>* report = nullptr);

// How the names of a folder's tensors differ from a model's FQNs.
struct SafetensorsNames {
  std::string prefix = {};             // that older files leave out: "transformer."
  std::vector<std::string> dead = {};  // globs of tensors that nobody needs: old buffers
  // FQNs of the whole model where this one is a part of it: their tensors, if they are
  // there, are not looked at, nor are files that hold nothing else.
  std::vector<std::string> elsewhere = {};
  // Globs of parameters that the folder need not have: they keep their values; an engine
  // that awaits values initializes them.
  std::vector<std::string> may_lack = {};
  // Globs of FQNs that may have another name there, and that name.
  std::map<std::string, std::string> renamed = {};
  std::string outer = {};  // what stands before every name there: "base_model.model."
  std::string file = {};   // one of the folder; empty: as a model's are named
};

// Set all parameters to the tensors of a folder in the safetensors format, such as those
// at Hugging Face, and all buffers if it has any of them; the optimizer's state and
// num_steps() stay. Collective.
//
// Each rank reads only its own slices, straight into its shards. A tied parameter may
// stand there under any of its names; under several, they must be equal. Returns the
// names of dead tensors. Missing, extra and misshapen ones are listed in one
// CheckpointError, before anything of the engine is changed; an error while reading is
// thrown by all ranks, and the engine must load something before it goes on. Between
// backward() and step() an Error(kUsage).
std::vector<std::string> load_safetensors(Engine& engine, const std::string& folder,
                                          const SafetensorsNames& names = {});

}  // namespace zero
