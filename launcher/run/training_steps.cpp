// What a run does from its first step on.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/seconds.h"
#include "engine/watch/trace.h"
#include "launcher/data/samples.h"
#include "launcher/inference/evaluate.h"
#include "launcher/inference/generate.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/memory_check.h"
#include "launcher/run/movement.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/run/step_meter.h"
#include "launcher/run/step_trace.h"
#include "launcher/run/training.h"
#include "launcher/settings/values.h"
#include "launcher/text/prompt.h"
#include "launcher/text/tokenizer.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/lr_schedule.h"
#include "zero/save_load.h"

namespace zero::launcher {
namespace {

using Clock = std::chrono::steady_clock;

std::string name_of(Stop reason) {
  constexpr std::array kNames = {"nothing", "the file STOP", "the time limit",
                                 "a signal"};
  return kNames[static_cast<size_t>(reason)];
}

// As far as it is known: of epochs every batch that is left makes a step.
int64_t last_step_of(const Settings& settings, const BatchPlan& batch,
                     const Progress& progress, int64_t step) {
  if (settings.epochs == 0) return settings.steps;
  return step + num_batches(progress.num_samples, batch.end, batch.global_batch);
}

}  // namespace

// ---- the steps

ExitCode Training::train_steps() {
  StepTrace trace(settings_.trace, settings_.out, world_.rank());
  cores_.emplace();
  while (!is_finished()) {
    thaw();
    trace.begin(engine_->num_steps() + 1);
    const StepMeter meter(*engine_);
    const StepReport report = train_batch(progress_.num_batches);
    const StepRecord record = meter.record(report);
    if (!losses_.empty()) shares_.add(record.shares, record.seconds);
    ++progress_.num_batches;
    progress_.num_samples =
        std::min(progress_.num_samples + batch_.global_batch, batch_.end);
    progress_.num_bad += report.skipped;
    // A smaller loss scale may be all that it takes.
    const bool is_bad = report.skipped && report.loss_scale <= settings_.loss_scale_min;
    progress_.num_bad_in_a_row = is_bad ? progress_.num_bad_in_a_row + 1 : 0;
    losses_.push_back(report.loss);
    if (eval_pace_) eval_pace_->note_step(record.seconds);
    time_limit_.note_step(record.seconds);
    log_step(behind_wait(record, std::exchange(save_wait_, 0)));
    const int64_t num_steps = std::ssize(losses_);  // of this process
    if (num_steps == kStepsToMove || (is_finished() && num_steps < kStepsToMove))
      tell_movement();
    if (pending_save_ && pending_save_->save->is_done()) finish_save();
    check_progress(report);
    if (const auto warning = cores_->look(); warning && is_first_rank()) warn(*warning);
    const Stop stop = agree_on_next();
    if (stop != Stop::kNo && !is_finished()) return leave(stop);
    if (const Stop left = look_at_model(); left != Stop::kNo) return leave(left);
    if (save_is_due_ || (is_finished() && settings_.save_at_end)) save();
    trace.end(engine_->num_steps());
  }
  return ExitCode::kDone;
}

void Training::thaw() {
  for (const std::string& line : thawing_->thaw(*engine_))
    if (is_first_rank()) tell(line);
}

StepReport Training::train_batch(int64_t batch) {
  // The engine was made before it was known how many steps an earlier run had made.
  if (settings_.epochs > 0)
    engine_->set_learning_rate(learning_rate(schedule_, engine_->num_steps()));
  const Trace::Span span("step", std::to_string(engine_->num_steps() + 1));
  const int64_t at_once = settings_.accumulate == "unit" ? num_passes(batch_) : 1;
  for (int64_t pass = 0; pass < num_passes(batch_); pass += at_once)
    runner_->train(read_passes(*samples_, batch_, batch, pass, at_once));
  return engine_->step();
}

void Training::log_step(const StepRecord& record) {
  eta_.add_step(record.seconds);
  if (!is_first_rank()) return;
  metrics_->step(record);
  const bool is_shown = record.step % settings_.log_every == 0 || record.step == 1 ||
                        record.skipped || record.step == settings_.steps;
  if (!is_shown) return;
  const int64_t last = last_step_of(settings_, batch_, progress_, record.step);
  tell(step_line(record, settings_.steps,
                 eta_.remaining_seconds(record.step, last, settings_.eval_every),
                 width_of_stdout(), family_->task == Task::kImages ? "img" : "tok"));
}

void Training::tell_movement() {
  const std::vector<ParamMovement> movements = engine_->movements();
  if (!is_first_rank()) return;
  tell(wrapped(movement_line(movements), width_of_stdout()));
  nlohmann::ordered_json record = movement_record(movements);
  record["step"] = engine_->num_steps();
  metrics_->note("masters", record);
}

void Training::check_progress(const StepReport& report) {
  const int64_t num_bad = progress_.num_bad_in_a_row;
  if (settings_.max_bad_steps == 0 || num_bad < settings_.max_bad_steps) return;
  finish_save();  // nobody would hear of its failure
  const bool is_scaled = report.loss_scale > 0;
  throw Error(ExitCode::kTraining,
              fmt::format("loss or gradient was not finite {} times in a row{}", num_bad,
                          is_scaled ? fmt::format(" at the smallest loss scale, {}",
                                                  report.loss_scale)
                                    : ""),
              fmt::format("after step {}: {}", report.step, report.first_bad),
              std::string("a lower lr, warmup_steps, or clip") +
                  (settings_.loss_scale_min > 1 ? ", or a smaller loss_scale_min" : "") +
                  (is_scaled ? "; or dtype bf16, which has the range of fp32" : ""));
}

// ---- stopping

// One exchange tells every rank what any of them knows: whether to stop and, by the first
// rank's clock, whether a save and an evaluation are due.
Stop Training::agree_on_next() {
  const int64_t stop = static_cast<int64_t>(wish_to_stop());
  const bool saves = is_first_rank() && is_save_due();
  const bool evaluates = is_first_rank() && wants_evaluation();
  const int64_t wish =
      engine_->control().largest(4 * stop + 2 * saves + evaluates, "stop");
  save_is_due_ = save_is_due_ || wish / 2 % 2 == 1;
  evaluation_is_due_ = wish % 2 == 1;
  return static_cast<Stop>(wish / 4);
}

Stop Training::wish_to_stop() const {
  if (stop_signal() != 0) return Stop::kSignal;
  if (!is_first_rank()) return Stop::kNo;
  folder_->check_ours();
  // The last save waits for one under way; one that is due now would be another.
  double due = pending_save_ ? time_limit_.save() : 0;
  if (is_save_due()) due += time_limit_.save();
  if (wants_evaluation()) due += time_limit_.evaluation(steps_of_evaluation());
  if (time_limit_.is_near(process_age(), due)) return Stop::kTimeLimit;
  return folder_->has_stop_file() ? Stop::kStopFile : Stop::kNo;
}

ExitCode Training::leave(Stop reason) {
  if (is_first_rank()) folder_->remove_stop_file();  // also where the save fails
  save();
  finish_last_save();
  tell_use();
  if (!is_first_rank()) return ExitCode::kRequeue;
  metrics_->note("stop", {{"step", engine_->num_steps()}, {"reason", name_of(reason)}});
  tell(fmt::format("stopped by {} at step {}/{}; the same command goes on from here",
                   name_of(reason), engine_->num_steps(), settings_.steps));
  return ExitCode::kRequeue;
}

// ---- beside and after the steps

// What is to be done every so many steps, and was done at step `last`.
bool Training::is_due(int64_t every, int64_t last) const {
  const int64_t step = engine_->num_steps();
  return every > 0 && step > 0 && step % every == 0 && last != step;
}

double Training::steps_of_evaluation() const {
  return static_cast<double>(samples_to_evaluate(*eval_samples_, settings_)) /
         static_cast<double>(batch_.global_batch);
}

// The checkpoint of the last step may be the best.
bool Training::wants_evaluation() const {
  if (!eval_samples_ || is_evaluating_) return false;
  if (settings_.keep_best && is_finished())
    return progress_.last_evaluation != engine_->num_steps();
  return eval_pace_ ? eval_pace_->is_due()
                    : is_due(settings_.eval_every, progress_.last_evaluation);
}

Stop Training::look_at_model() {
  const Stop stop = evaluation_is_due_ ? evaluate_model() : Stop::kNo;
  const bool wants_sample = is_due(settings_.sample_every, progress_.last_sample);
  return stop == Stop::kNo && wants_sample ? draw_sample() : stop;
}

Stop Training::evaluate_model() {
  if (!eval_samples_) return Stop::kNo;
  Stop stop = Stop::kNo;
  engine_->average_buffers();
  const auto begin = Clock::now();
  const int64_t num_samples = samples_to_evaluate(*eval_samples_, settings_);
  is_evaluating_ = true;
  const std::optional<Evaluation> result =
      evaluate(*runner_, engine_->control(), *eval_samples_, batch_, num_samples,
               {.is_stopped = [&] {
                 stop = agree_on_next();
                 return stop != Stop::kNo;
               }});
  is_evaluating_ = false;
  if (!result) return stop;
  const double seconds = seconds_since(begin);
  note_evaluation(result->loss, seconds);
  if (is_first_rank())
    record_evaluation({progress_.last_evaluation, result->loss, result->num_targets,
                       seconds, result->accuracy},
                      num_samples);
  return Stop::kNo;
}

void Training::record_evaluation(const EvalRecord& record, int64_t num_samples) {
  metrics_->eval(record);
  // What was not asked for is no result.
  const bool is_asked_for = !settings_.eval_data.empty() || settings_.eval_every > 0;
  const auto say = is_asked_for ? print_line : tell;
  const bool is_best = settings_.keep_best && progress_.best_step == record.step;
  const std::string line =
      fmt::format("eval {:>{}}/{} | {} | {} samples{}", record.step,
                  std::to_string(settings_.steps).size() + 1, settings_.steps,
                  evaluation_text(record.loss, record.accuracy, family_->task, 4),
                  num_samples, is_best ? " | best so far" : "");
  say(wrapped(line, width_of_stdout()));
}

// The same on all ranks, but for the seconds. A best one is saved at once.
void Training::note_evaluation(double loss, double seconds) {
  progress_.last_evaluation = engine_->num_steps();
  evaluation_is_due_ = false;
  time_limit_.note_evaluation(seconds);
  eta_.note_evaluation(seconds);
  if (eval_pace_) eval_pace_->note_evaluation(seconds);
  const bool is_best = progress_.best_step < 0 || loss < progress_.best_loss;
  if (!settings_.keep_best || !std::isfinite(loss) || !is_best) return;
  progress_.best_step = progress_.last_evaluation;
  progress_.best_loss = loss;
  save_is_due_ = true;
}

// No run ends because a tokenizer does.
NextText Training::speech() {
  const auto or_numbers = [this](const auto& speak, const auto& otherwise) {
    try {
      if (speaker_) return speak();
    } catch (const Error& error) {
      if (error.code() != ExitCode::kInterrupted)
        warn(fmt::format("samples are numbers from here on: {}", error.what()));
      speaker_.reset();
    }
    return otherwise();
  };
  const auto next =
      or_numbers([&] { return speech_of(speaker_.get()); }, [] { return NextText(); });
  if (!next) return nullptr;
  return [=](std::optional<int64_t> token) {
    return or_numbers([&] { return next(token); },
                      [&] { return token ? fmt::format("<{}>", *token) : ""; });
  };
}

// All ranks draw the same tokens; nothing of the model or of the training changes.
Stop Training::draw_sample() {
  Stop stop = Stop::kNo;
  const auto is_stopped = [&] {
    stop = agree_on_next();
    return stop != Stop::kNo;
  };
  const TextManner manner =
      made_together({.is_text = identity_.is_text,
                     .is_stopped = is_stopped,
                     .speech = [this](int64_t) { return speech(); }},
                    engine_->control());
  const TextBegin begin{.tokens = sample_prompt_, .ends = sample_ends_};
  const auto reader = runner_->reader(texts_at_once({begin}, settings_, shape_));
  const GeneratedText sample =
      make_texts(*reader, {begin}, settings_, shape_, manner).front();
  if (stop != Stop::kNo) return stop;
  progress_.last_sample = engine_->num_steps();
  if (!is_first_rank()) return Stop::kNo;
  const std::string prompt = printable(sample.prompt), text = printable(sample.text);
  metrics_->note("sample",
                 {{"step", progress_.last_sample}, {"prompt", prompt}, {"text", text}});
  print_line(
      fmt::format("sample at step {}:\n{}{}", progress_.last_sample, prompt, text));
  if (sample.end.finish == Finish::kNoNumbers)
    warn(early_end(Finish::kNoNumbers, shape_.seq_len));
  return Stop::kNo;
}

ExitCode Training::finish() {
  const int64_t step = engine_->num_steps();
  Stop stop = progress_.last_evaluation == step ? Stop::kNo : evaluate_model();
  if (stop != Stop::kNo) return leave(stop);
  engine_->average_buffers();
  const bool has_sample = settings_.sample.empty() || progress_.last_sample == step;
  stop = has_sample ? Stop::kNo : draw_sample();
  if (stop != Stop::kNo) return leave(stop);
  finish_last_save();
  tell_use();
  if (!is_first_rank()) return ExitCode::kDone;
  folder_->remove_stop_file();
  if (settings_.keep_best && progress_.best_step > 0)
    tell(fmt::format("best: step {}, evaluation loss {:.4f}; {}/best names it",
                     progress_.best_step, progress_.best_loss, settings_.out));
  if (saved_batches_ != progress_.num_batches)
    tell(fmt::format("step {} is not saved (--save-at-end=false); {}", step,
                     saved_step_ > 0
                         ? fmt::format("the newest checkpoint is of step {}", saved_step_)
                         : "there is no checkpoint"));
  metrics_->note("end", {{"step", engine_->num_steps()}});
  return ExitCode::kDone;
}

// What limits this rank's steps, which are like the others'; what was planned of memory,
// and what it came to.
void Training::tell_use() {
  const MemoryUse use =
      largest_use(engine_->control(), engine_->allocated_bytes(),
                  engine_->offloaded_activations().pinned, engine_->uses_gpu());
  if (!is_first_rank()) return;
  if (shares_.has_any()) {
    Shares shares = shares_.mean();
    shares.without_core = cores_->share();
    tell(wrapped(bound_sentence(shares, engine_->uses_gpu()), width_of_stdout()));
  }
  tell(wrapped(to_text(plan_, use), width_of_stdout()));
  metrics_->note("memory", {{"step", engine_->num_steps()},
                            {"engine_planned", plan_.engine_bytes()},
                            {"engine_allocated", use.engine},
                            {"activations_planned", plan_.activations},
                            {"activations_peak", use.activations},
                            {"torch_reserved_peak", use.reserved},
                            {"offloaded_planned", plan_.offloaded},
                            {"offloaded_allocated", use.offloaded},
                            {"process_peak", use.process}});
}

}  // namespace zero::launcher
