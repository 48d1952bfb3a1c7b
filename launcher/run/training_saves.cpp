// How a run saves: beside the steps that follow, or while they wait.
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files.h"
#include "base/seconds.h"
#include "checkpoint/commit.h"
#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/format.h"
#include "checkpoint/tidy.h"
#include "engine/save/saved_arrays.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/training.h"
#include "launcher/settings/values.h"
#include "zero/engine.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero::launcher {

// Masters and states of all ranks. Collective.
int64_t Training::checkpoint_bytes() const {
  auto slices = shard_slices(*engine_, /*with_state=*/true);
  std::erase_if(slices, [&](const checkpoint::Slice& slice) {
    return identity_.frozen.has(slice.tensor.fqn);
  });
  int64_t bytes = bytes_of(slices);
  engine_->control().all_reduce({&bytes, 1}, ReduceOp::kSum, "checkpoint");
  return bytes;
}

// By the clock a save is not due while another one goes on. A batch that was skipped
// makes no step to be saved.
bool Training::is_save_due() const {
  const int64_t step = engine_->num_steps();
  const bool by_steps = settings_.save_every.steps > 0;
  if (pending_save_ && (!by_steps || pending_save_->step == step)) return false;
  if (by_steps && saved_step_ == step) return false;
  return save_pace_.is_due(step, process_age());
}

// Nothing is written twice. A step that was not finite changes the place in the data
// alone, and an evaluation the best step: that is saved again under the same step.
void Training::save() {
  save_is_due_ = false;
  finish_save();
  if (saved_batches_ == progress_.num_batches && saved_best_ == progress_.best()) return;
  if (engine_->num_steps() == saved_step_ &&
      engine_->control().largest(is_linked_here(), "linked") > 0)
    return keep_linked();
  begin_save();
  if (settings_.save == "sync") finish_save();
}

void Training::begin_save() {
  SavedState state;
  state.step = engine_->num_steps();
  state.config = to_text(identity_);
  state.left_out = identity_.frozen.fqns();
  state.position = to_text(progress_);
  if (is_first_rank())
    metrics_->note("saving", {{"step", state.step}, {"batches", progress_.num_batches}});
  pending_save_.emplace(PendingSave{.step = state.step,
                                    .batches = progress_.num_batches,
                                    .best = progress_.best(),
                                    .held_before = engine_->stream_seconds().saves});
  // A checkpoint of this step that is there already is a damaged one, passed over, or
  // this run's own with fewer batches.
  const checkpoint::OpenRun* run = is_first_rank() ? &folder_->run() : nullptr;
  const auto follow = [this](const std::string&) { follow_save(*pending_save_); };
  pending_save_->save = save_async(
      *engine_, run, state, {.replace = true, .step_throws = false, .after = follow});
}

// What the thread that saves does in the run's folder once the checkpoint is there.
void Training::follow_save(PendingSave& done) const {
  if (!checkpoint::has_hint(folder_->run(), done.step))
    done.warnings.push_back(
        fmt::format("{}/latest could not be written: it does not name step {}",
                    settings_.out, done.step));
  if (settings_.keep_best && done.best.step == done.step)
    name_best(done.step, done.warnings);
  if (settings_.keep == 0) return;
  try {
    checkpoint::purge(
        folder_->run(),
        {static_cast<int>(settings_.keep), settings_.keep_every, done.best.step},
        done.step);
  } catch (const checkpoint::CheckpointError& error) {
    done.warnings.push_back(
        fmt::format("older checkpoints could not be removed: {}", error.what()));
  }
}

// Wait for the save that goes on, if there is one, and tell of it. Unless the run
// `goes_on` whatever comes, what went wrong is thrown.
void Training::finish_save(bool goes_on) {
  if (!pending_save_) return;
  const auto begin = std::chrono::steady_clock::now();
  std::string path;
  try {
    path = pending_save_->save->wait();
  } catch (const FileError& error) {
    if (is_first_rank()) record_failed_save(error, goes_on);
    if (goes_on) note_failed_save(*pending_save_);
    pending_save_.reset();
    if (goes_on) return;
    throw;
  }
  pending_save_->waited = seconds_since(begin);
  const double lost = note_save(*pending_save_);
  if (is_first_rank()) record_save(*pending_save_, path, lost);
  pending_save_.reset();
}

void Training::finish_save() { finish_save(settings_.on_save_error == "continue"); }

// The run ends: nothing tries again what has failed.
void Training::finish_last_save() {
  finish_save(/*goes_on=*/false);
  if (failed_save_) std::rethrow_exception(failed_save_);
}

// The same on all ranks, but for seconds; how many of them training has lost.
double Training::note_save(const PendingSave& done) {
  failed_save_ = nullptr;
  saved_batches_ = done.batches;
  saved_step_ = done.step;
  saved_best_ = done.best;
  note_cost_of_signals();
  const double held = engine_->stream_seconds().saves - done.held_before;
  const double lost = held + done.waited;
  Shares waiting;
  waiting.waiting = waiting.saves = 1;
  shares_.add(waiting, done.waited);
  save_wait_ += done.waited;
  time_limit_.note_save(done.save->seconds());
  save_pace_.note_save(process_age(), lost);
  if (eval_pace_ && done.best.step == done.step) eval_pace_->note_save(lost);
  return lost;
}

// A best step that is not there is none: the one before stays what others are compared
// with.
void Training::note_failed_save(const PendingSave& failed) {
  failed_save_ = std::current_exception();
  if (progress_.best() == failed.best) progress_.set_best(saved_best_);
  save_pace_.note_save(process_age(), 0);
}

void Training::record_save(const PendingSave& done, const std::string& path,
                           double lost) {
  const double seconds = done.save->seconds();
  metrics_->note("save", {{"step", done.step},
                          {"batches", done.batches},
                          {"seconds", seconds},
                          {"lost_seconds", lost},
                          {"path", path}});
  tell(wrapped(fmt::format("saved step {} in {:.2f} s: {}", done.step, seconds, path),
               width_of_stdout()));
  for (const std::string& warning : done.warnings) warn(warning);
}

void Training::record_failed_save(const std::exception& error, bool goes_on) {
  metrics_->note("save_failed",
                 {{"step", pending_save_->step}, {"error", printable(error.what())}});
  if (!goes_on) return;
  warn(fmt::format("step {} is not saved, and the run goes on to its next save: {}",
                   pending_save_->step, error.what()));
}

// The checkpoint that this run has loaded was moved away and linked back.
bool Training::is_linked_here() const {
  if (!is_first_rank()) return false;
  const checkpoint::Folder& folder = folder_->run().folder();
  const std::string name = checkpoint::step_folder(saved_step_);
  return folder.leads_to_folder(name) && !folder.has_folder(name);
}

// It stays: batches after it that did not count are skipped again by a resume.
void Training::keep_linked() {
  saved_batches_ = progress_.num_batches;
  saved_best_ = progress_.best();
  name_best(saved_best_.step);
  if (is_first_rank())
    tell(fmt::format("step {} is saved already, behind a link that stays: {}/{}",
                     saved_step_, settings_.out, checkpoint::step_folder(saved_step_)));
}

bool Training::is_best_here() const {
  if (!is_first_rank() || progress_.best_step < 0) return false;
  return folder_->run().folder().leads_to_folder(
      checkpoint::step_folder(progress_.best_step));
}

// Once its checkpoint is there. -1: there is none.
void Training::name_best(int64_t step) const {
  if (!is_first_rank() || !settings_.keep_best || step < 0) return;
  std::vector<std::string> warnings;
  name_best(step, warnings);
  for (const std::string& warning : warnings) warn(warning);
}

void Training::name_best(int64_t step, std::vector<std::string>& warnings) const {
  try {
    checkpoint::name_best(folder_->run(), step);
  } catch (const checkpoint::CheckpointError& error) {
    warnings.push_back(fmt::format("{}/best does not name step {}: {}", settings_.out,
                                   step, error.what()));
  }
}

// A signal may come in the middle of a step that is longer than mpirun waits.
void Training::note_cost_of_signals() {
  if (!signals_cost_) return;
  const std::string last =
      saved_step_ > 0 ? fmt::format("step {}", saved_step_) : "the start";
  set_signal_note(
      fmt::format("zero: saving at the end of this step, if mpirun waits so long (a "
                  "second); else the "
                  "steps since {} are lost, and the same command goes on from there",
                  last));
}

}  // namespace zero::launcher
