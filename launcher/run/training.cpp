#include "launcher/run/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/processes.h"
#include "checkpoint/file.h"
#include "checkpoint/find.h"
#include "checkpoint/format.h"
#include "engine/comm/agreement.h"
#include "engine/plan/flat_layout.h"
#include "engine/watch/activity.h"
#include "launcher/data/source.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/plan/advice.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/dump_state.h"
#include "launcher/run/memory_check.h"
#include "launcher/run/metrics_history.h"
#include "launcher/run/model_weights.h"
#include "launcher/run/resume.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/run_record.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/values.h"
#include "launcher/text/tokenizer.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/ranks.h"
#include "zero/save_load.h"

namespace zero::launcher {

Training::Training(const Settings& settings, const ModelFamilies& models, World& world)
    : settings_(settings),
      models_(models),
      world_(world),
      time_limit_(settings.time_limit),
      save_pace_(settings.save_every) {}

Training::~Training() = default;

ExitCode Training::run() try {
  process_ = set_up_process(settings_, world_);
  open_data();
  build_engine();
  open_folder();
  load_progress();
  announce();
  if (const Stop stop = begin(); stop != Stop::kNo) return leave(stop);
  ExitCode code = train_steps();
  if (!has_ended_ && code == ExitCode::kDone) code = finish();
  if (has_ended_ && is_first_rank()) tell_end();
  if (!settings_.dump_state.empty()) dump_state(settings_.dump_state, *engine_, losses_);
  return code;
} catch (...) {
  // With several ranks nobody gives the run's lock back later. A save that still goes on
  // needs it.
  if (!pending_save_) folder_.reset();
  throw;
}

void Training::tell_end() const {
  std::string text = fmt::format(
      "this run is finished: step {} of {} is in {}; a larger {} continues it",
      engine_->num_steps(), settings_.steps, started_from_,
      settings_.epochs > 0 ? "--epochs" : "--steps");
  if (!settings_.sample.empty())
    text += fmt::format("; zero_launch generate --from {} draws a sample", settings_.out);
  tell(text);
}

bool Training::is_first_rank() const { return world_.rank() == 0; }

void Training::build_engine() {
  model_ = make_deferred(*family_, shape_);
  std::unique_ptr<Ranks> ranks = world_.make_ranks();
  const auto plan = [&](const Wish& wish) { return make_plan(wish, *family_, *model_); };
  // All choose alike: by the rank that has least.
  const auto smallest = [&](int64_t bytes) { return -ranks->largest(-bytes, "room"); };
  Wish wish{settings_, shape_, world_.size(), world_.local_size()};
  wish.task = family_->task;
  wish.gpu_room = smallest(room_on_gpu(settings_, *ranks));
  wish.program = largest_program(*ranks, largest_product(wish));
  wish.room = smallest(room_on_host(settings_, wish.program.of_node(wish.ranks_on_node)));
  plan_ = plan(wish);
  require_memory(*ranks, world_, plan_, settings_, wish.gpu_room,
                 [&] { return memory_advice(wish, plan); });
  // All at the same time: in a step, too, the ranks of a host share its memory.
  ranks->barrier("adam threads");
  adam_threads_ = choose_adam_threads(static_cast<int>(settings_.adam_threads),
                                      plan_.engine_host_bytes());
  settings_.accumulate = plan_.settings.accumulate;  // is kept on resume
  Options options = engine_options(plan_.settings, batch_, shape_, *family_);
  options.adam_threads = adam_threads_.threads;
  options.source = Source::kCheckpoint;  // what is loaded is not made before
  options.init_report = !settings_.init_report.empty();
  engine_ = std::make_unique<Engine>(model_->module(), options, std::move(ranks));
  const auto shards = engine_->shards();
  if (std::ranges::all_of(shards, &ShardView::frozen))
    throw Error(ExitCode::kUsage, "every parameter is frozen: nothing would be trained",
                "--freeze", "patterns that leave some; names look like " + shards[0].fqn);
  runner_ = std::make_unique<Runner>(*model_, *engine_);
  thawing_.emplace(settings_.unfreeze_at);
}

void Training::open_folder() {
  identity_.settings = settings_;
  for (auto* paths : {&identity_.settings.data, &identity_.settings.eval_data})
    for (std::string& path : *paths) path = lasting_path(path);
  identity_.data = agree_on_data(*source_, world_.local_rank() == 0, engine_->control());
  if (eval_source_)
    agree_on_data(*eval_source_, world_.local_rank() == 0, engine_->control());
  identity_.vocab = shape_.vocab();
  identity_.model = shape_.config;
  identity_.classes = source_->class_names();
  identity_.is_text = has_bytes();
  identity_.threads = process_.threads;
  const auto take_over = settings_.take_over ? checkpoint::TakeOver::kAlways
                                             : checkpoint::TakeOver::kFromTheDead;
  folder_ = std::make_unique<RunFolder>(settings_.out, job_id(process_environment()),
                                        take_over, engine_->control());
}

void Training::load_progress() {
  const std::optional<Resumed> resumed =
      resume(*engine_, identity_, [this](const FrozenSource& source, bool moved) {
        read_frozen_before(source, moved);
      });
  if (!resumed) read_weights();
  if (!settings_.save_frozen) identity_.frozen = unchanged(*engine_, base_, base_path_);
  if (!resumed) {
    if (is_first_rank()) keep_tokenizer();
    return report_first_values();
  }
  started_from_ = resumed->folder;
  progress_ = resumed->progress;
  // A best one that is not here is nothing to compare with.
  if (engine_->control().largest(is_best_here(), "best") == 0) progress_.set_best({});
  saved_best_ = progress_.best();
  saved_batches_ = progress_.num_batches;
  // The samples that were used before stay used, also when global_batch has changed.
  batch_.begin = progress_.num_samples - progress_.num_batches * batch_.global_batch;
  if (settings_.epochs > 0) count_steps();
  identity_.settings.steps = settings_.steps;
  saved_step_ = engine_->num_steps();
  take_over_threads(resumed->threads);
  if (!is_first_rank()) return;
  // Damaged ones would be in the way of the steps to come, and of --keep.
  for (const std::string& name : first_few(folder_->set_aside_behind(saved_step_)))
    warn(fmt::format("set aside as {}/{}", settings_.out, name));
  name_best(progress_.best_step);
  if (goes_on_here()) return;
  keep_source_of(started_from_);
  keep_tokenizer();
}

// And not behind a checkpoint of another folder.
bool Training::goes_on_here() const {
  std::error_code error;
  return std::filesystem::equivalent(checkpoint::split_path(started_from_).folder,
                                     settings_.out, error);
}

void Training::report_first_values() {
  if (settings_.init_report.empty()) return;
  Agreement(engine_->control(), "report first values").run([&] {
    if (is_first_rank()) write_init_report(settings_.init_report, engine_->init_report());
  });
}

// Of --init-from, into a run that begins; its small files stay with the run. Of a
// checkpoint its weights and buffers; the optimizer and the steps begin.
void Training::read_weights() {
  if (!folder_of_weights_) {
    engine_->initialize();
    return engine_->masters_changed();
  }
  const std::string& path = folder_of_weights_->path;
  const bool is_checkpoint = folder_of_weights_->is_checkpoint;
  if (!is_checkpoint) refuse_allowances(settings_, path);
  const WeightsRead read =
      launcher::read_weights(*engine_, weights_at(path, is_checkpoint), *family_, shape_);
  note_base(path, read.state.missing);
  read_adapters();
  if (!is_first_rank()) return;
  tell(fmt::format("weights of {}", path));
  for (const std::string& name : first_few(read.dead))
    tell(fmt::format("not read, as nobody needs it: {}", name));
  for (const std::string& line : differences_of(read.state)) tell(line);
  is_checkpoint ? keep_source_of(path) : keep_source(path);
}

// What lies beside the steps of another run, one of which is `checkpoint`.
void Training::keep_source_of(const std::string& checkpoint) const {
  const std::string source = source_folder(checkpoint::split_path(checkpoint).folder);
  if (!std::filesystem::is_directory(source)) return;
  std::vector<std::string> names = checkpoint::Folder(source).names();
  if (!settings_.tokenizer.empty()) std::erase_if(names, is_of_tokenizer);
  copy_files(source, names, source_folder(settings_.out));
}

WeightsPlace Training::weights_at(const std::string& path, bool is_checkpoint) const {
  return {.path = path,
          .is_checkpoint = is_checkpoint,
          .options = allowances_of(settings_),
          .may_lack = adapter_names(shape_),  // are new, as asked
          .elsewhere = names_of_other_parts(*family_, shape_)};
}

// What lies there, before anything else is set.
void Training::note_base(const std::string& path,
                         const std::vector<std::string>& lacking) {
  if (settings_.save_frozen) return;
  base_ = frozen_checksums(*engine_, lacking);
  base_path_ = path;
}

// Before a checkpoint is loaded; of a run that has saved all so far, those of
// --init-from.
void Training::read_frozen_before(const FrozenSource& source, bool moved) {
  if (source.path.empty()) {
    const WeightsPlace place = find_frozen(*engine_, {settings_.init_from});
    const WeightsRead read = launcher::read_weights(
        *engine_, weights_at(place.path, place.is_checkpoint), *family_, shape_);
    return note_base(place.path, read.state.missing);
  }
  std::vector<std::string> paths = {source.path, settings_.init_from};
  if (moved) std::ranges::reverse(paths);
  const WeightsPlace place = find_frozen(*engine_, paths);
  read_frozen(*engine_, source, place, *family_, shape_);
  note_base(place.path, {});
}

void Training::read_adapters() {
  if (settings_.adapter.empty()) return;
  read_adapter_weights(*engine_, settings_.adapter, *family_);
  if (is_first_rank()) tell(fmt::format("adapters of {}", settings_.adapter));
}

// All ranks the same, as many as the one with the fewest cores can run.
void Training::take_over_threads(int64_t saved) {
  int64_t num_cores = std::ssize(process_.cores.cpus);
  engine_->control().all_reduce({&num_cores, 1}, ReduceOp::kMin, "cores");
  const auto [threads, note] =
      choose_threads_again(saved, process_.are_asked_for, process_.threads, num_cores);
  set_threads(threads);
  process_.threads = threads;
  identity_.threads = threads;
  if (is_first_rank() && !note.empty()) tell(note);
}

void Training::announce() {
  BannerFacts facts;
  facts.cores = engine_->control().gather(process_.cores.note);
  hosts_ = facts.hosts = engine_->control().gather(host_name());
  facts.checkpoint_bytes = checkpoint_bytes();
  if (!is_first_rank()) return;
  facts.threads = process_.threads;
  facts.adam_threads = adam_threads_;
  facts.frozen_for_now = thawing_->waiting(*engine_);
  if (engine_->uses_gpu()) facts.gpu = "a GPU, " + describe_offload(plan_);
  facts.family = family_->name;
  facts.shape = shape_;
  facts.num_parameters = engine_->num_parameters();
  for (const ShardView& shard : engine_->shards())
    if (!shard.frozen) facts.num_trained += ParamShape{shard.fqn, shard.shape}.numel();
  facts.num_units = engine_->num_units();
  facts.data = source_->describe();
  facts.samples_per_epoch = samples_->num_samples();
  facts.num_held_out = eval_samples_ && !eval_source_ ? eval_samples_->num_samples() : 0;
  facts.batch = batch_;
  facts.memory = engine_->memory();
  facts.activations = plan_.activations;
  const Starter starter = starter_of_this_process();
  facts.stop_command = stop_command(starter, process_environment(), settings_.out);
  signals_cost_ = is_impatient(starter);
  if (!started_from_.empty()) facts.save_seconds = last_save_seconds(settings_.out);
  if (facts.save_seconds >= 0) time_limit_.note_save(facts.save_seconds);
  tell(wrapped(banner(settings_, facts), width_of_stdout(), kTextColumn));
  const int64_t num_frozen = facts.num_parameters - facts.num_trained;
  // Instead of masters, and what is made of them to be computed with.
  const int64_t whole = settings_.dtype == "fp32" ? 4 : 6;
  const int64_t kept = bytes_of(engine_->options().frozen_dtype, num_frozen);
  if (is_rounded_ && num_frozen > 0)
    tell(fmt::format("frozen weights are rounded to {}, which saves {}",
                     settings_.frozen_dtype, short_bytes(num_frozen * whole - kept)));
  tell_more("all settings:\n" + to_toml(settings_));
}

// Hours before the save that would find its name taken.
void Training::require_free_names() const {
  const checkpoint::Folder& folder = folder_->run().folder();
  for (const int64_t step : checkpoint::misnamed_steps(folder)) {
    if (step <= engine_->num_steps() || step > settings_.steps) continue;
    throw Error(ExitCode::kUsage,
                "it has the name of a checkpoint that this run may save, and is neither "
                "one nor a link to one",
                folder.path_of(checkpoint::step_folder(step)),
                "move it away, or another --out");
  }
}

Stop Training::begin() {
  save_pace_.note_save(process_age(), 0);
  if (eval_samples_ && settings_.eval_every == 0 && !settings_.deterministic)
    eval_pace_.emplace(steps_of_evaluation());
  evaluation_is_due_ = wants_evaluation();
  note_cost_of_signals();
  // Without that record a crash came between the last save and the end of what follows.
  const auto is_recorded = [&] {
    return is_first_rank() && has_end_record(settings_.out, engine_->num_steps());
  };
  has_ended_ = is_finished() && engine_->control().largest(is_recorded(), "ended") > 0;
  if (has_ended_) return Stop::kNo;
  if (is_first_rank()) {
    require_free_names();
    announce_start();
  }
  const Stop stop = look_at_model();
  if (save_is_due_) save();
  return stop;
}

// What an earlier process told about steps that come now is taken back first.
void Training::announce_start() {
  const int64_t step = engine_->num_steps();
  const bool is_fresh = started_from_.empty(), is_here = !is_fresh && goes_on_here();
  for (const std::string& name :
       is_here ? std::vector<std::string>() : set_metrics_aside(settings_.out))
    tell(
        fmt::format("metrics of an earlier run, which left no checkpoint, are kept as "
                    "{}/{}",
                    settings_.out, name));
  const int64_t num_cut =
      cut_metrics(settings_.out, is_here ? step : -1, progress_.num_batches);
  metrics_ = std::make_unique<Metrics>(settings_, is_here ? step : 0);
  record_run();
  if (is_fresh) {
    tell("fresh start: no checkpoint in " + settings_.out);
    return;
  }
  tell(fmt::format("resumed step {} from {}", step, started_from_));
  metrics_->note("resume", {{"step", step},
                            {"batches", progress_.num_batches},
                            {"from", started_from_},
                            {"records_cut", num_cut}});
}

// What it is, and where it runs.
void Training::record_run() {
  nlohmann::ordered_json record = run_record(*engine_, hosts_);
  record["world"].update(nlohmann::ordered_json(
      {{"threads", process_.threads}, {"adam_threads", adam_threads_.threads}}));
  record.update(nlohmann::ordered_json(
      {{"family", family_->name},
       {"task", family_->task == Task::kImages ? "images" : "language"},
       {"activations", plan_.activations},
       {"config", to_json(settings_)}}));
  metrics_->note("run", record);
}

bool Training::is_finished() const {
  return settings_.epochs > 0 ? progress_.num_samples >= batch_.end
                              : engine_->num_steps() >= settings_.steps;
}

}  // namespace zero::launcher
