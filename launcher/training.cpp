#include "launcher/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "engine/comm/communicator.h"
#include "engine/device/delays.h"
#include "engine/device/host_device.h"
#include "engine/engine.h"
#include "engine/errors.h"
#include "engine/init/deferred_init.h"
#include "examples/data/sampler.h"
#include "examples/data/token_file.h"
#include "examples/data/token_source.h"
#include "launcher/banner.h"
#include "launcher/console.h"
#include "launcher/dump_state.h"
#include "launcher/engine_options.h"
#include "launcher/evaluate.h"
#include "launcher/generate.h"
#include "launcher/runner.h"
#include "launcher/setting_table.h"
#include "launcher/values.h"
#include "launcher/world.h"
#include "offload/topology.h"

namespace zero::launcher {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::map<std::string, int> delays_of(const Settings& settings) {
  std::map<std::string, int> delays;
  for (const std::string& delay : settings.delay) {
    const size_t equals = delay.find('=');
    delays[delay.substr(0, equals)] =
        static_cast<int>(parse_integer(delay.substr(equals + 1)).value());
  }
  return delays;
}

int64_t free_host_bytes() {
  try {
    return available_memory_bytes();
  } catch (const std::runtime_error&) {
    return -1;
  }
}

// Every rank's text, cut to a line; collective.
std::vector<std::string> gather_texts(Communicator& ranks, const std::string& text) {
  constexpr size_t kWidth = 128;
  std::string mine = text.substr(0, kWidth), all(kWidth * ranks.size(), '\0');
  mine.resize(kWidth);
  auto stream = make_inline_stream("gather texts");
  ranks.all_gather(mine.data(), all.data(), kWidth, "texts", *stream);
  stream->synchronize();
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks.size(); ++rank)
    texts.emplace_back(all.c_str() + rank * kWidth);
  return texts;
}

bool is_text(const data::TokenSource& source) {
  return source.vocab_size() == data::TokenFile::kEndOfText + 1;
}

}  // namespace

Training::Training(const Settings& settings, const ModelFamilies& models, World& world)
    : settings_(settings), models_(models), world_(world) {}

Training::~Training() = default;

void Training::run() {
  take_threads();
  open_data();
  open_output();
  build_model();
  build_engine();
  announce();
  train_steps();
  finish();
}

bool Training::is_first_rank() const { return world_.rank() == 0; }

// ---- what comes before the first step

void Training::take_threads() {
  cores_ = take_cores(world_.local_rank(), world_.local_size(), settings_.bind);
  threads_ = choose_threads(static_cast<int>(settings_.threads), settings_.deterministic,
                            cores_.share);
  prepare_torch(threads_, static_cast<uint64_t>(settings_.seed));
  set_delays(delays_of(settings_));
}

void Training::open_data() {
  batch_ = {settings_.global_batch, settings_.micro_batch, world_.size(), world_.rank()};
  const ModelFamily& family = *find_family(models_, settings_.model);
  shape_ = chosen_shape(*find_preset(family, settings_.preset), settings_);
  const auto seed = static_cast<uint64_t>(settings_.seed);

  source_ = std::make_unique<data::TokenSource>(settings_.data);
  if (shape_.vocab == 0) shape_.vocab = source_->vocab_size();
  if (shape_.vocab == 0) {
    throw Error(ExitCode::kUsage, "vocab is missing, and these files do not tell it",
                source_->where(), "--vocab N");
  }
  sampler_ = std::make_unique<data::Sampler>(
      *source_, data::SamplerOptions{shape_.seq_len, settings_.shuffle, seed});
  if (!settings_.eval_data.empty()) {
    eval_source_ = std::make_unique<data::TokenSource>(settings_.eval_data);
    eval_sampler_ = std::make_unique<data::Sampler>(
        *eval_source_, data::SamplerOptions{shape_.seq_len, false, seed});
  }
  if (is_first_rank()) {  // reads every byte: once is enough
    source_->check_ids(shape_.vocab);
    if (eval_source_) eval_source_->check_ids(shape_.vocab);
  }
  if (!settings_.sample.empty())
    prompt_ = parse_prompt(settings_.sample, is_text(*source_), shape_.vocab);
}

void Training::open_output() {
  if (!is_first_rank()) return;
  std::error_code error;
  std::filesystem::create_directories(settings_.out, error);
  if (error) {
    throw Error(ExitCode::kCheckpoint,
                "cannot create the run's folder: " + error.message(), settings_.out,
                "another --out DIR");
  }
  const bool with_csv =
      std::ranges::find(settings_.metrics, "csv") != settings_.metrics.end();
  metrics_ = std::make_unique<Metrics>(settings_.out, with_csv);
}

void Training::build_model() {
  DeferredInit without_memory;
  model_ = find_family(models_, settings_.model)->make(shape_);
}

void Training::build_engine() {
  const ModelFamily& family = *find_family(models_, settings_.model);
  const Options options =
      engine_options(settings_, batch_, shape_.seq_len, family.init_rules(shape_));
  engine_ =
      std::make_unique<Engine>(model_->module(), options, world_.make_communicator());
  runner_ = std::make_unique<Runner>(*model_, *engine_);
}

void Training::announce() {
  BannerFacts facts;
  facts.cores = gather_texts(engine_->control(), cores_.note);
  if (!is_first_rank()) return;
  facts.threads = threads_;
  facts.shape = shape_;
  facts.num_parameters = engine_->num_parameters();
  facts.num_units = engine_->num_units();
  facts.data = source_->describe();
  facts.samples_per_epoch = sampler_->num_samples();
  facts.batch = batch_;
  facts.memory = engine_->memory();
  print_line(banner(settings_, facts));
  metrics_->run(to_json(settings_), {{"size", world_.size()},
                                     {"threads", threads_},
                                     {"parameters", facts.num_parameters},
                                     {"units", facts.num_units}});
}

// ---- the steps

void Training::train_steps() {
  while (engine_->num_steps() < settings_.steps) {
    const Stopwatch watch;
    const StepReport report = train_batch(num_batches_++);
    log_step(report, watch.seconds());
    check_progress(report);
    if (settings_.eval_every > 0 && !report.skipped &&
        report.step % settings_.eval_every == 0)
      evaluate_model();
  }
}

StepReport Training::train_batch(int64_t batch) {
  if (settings_.accumulate == "unit") {
    runner_->train(read_all_passes(*sampler_, batch_, shape_.seq_len, batch));
  } else {
    for (int64_t pass = 0; pass < num_passes(batch_); ++pass) {
      runner_->train(read_pass(*sampler_, batch_, shape_.seq_len, batch, pass));
    }
  }
  return engine_->step();
}

void Training::log_step(const StepReport& report, double seconds) {
  losses_.push_back(report.loss);
  eta_.add_step(seconds);
  if (!is_first_rank()) return;
  const StepRecord record{report.step,      report.loss,       report.grad_norm,
                          report.clip_coef, report.lr,         report.num_targets,
                          seconds,          free_host_bytes(), report.skipped,
                          report.first_bad};
  metrics_->step(record);
  const bool is_shown = report.step % settings_.log_every == 0 || report.step == 1 ||
                        report.skipped || report.step == settings_.steps;
  if (is_shown)
    print_line(step_line(record, settings_.steps,
                         eta_.remaining_seconds(settings_.steps - report.step)));
}

void Training::check_progress(const StepReport& report) {
  num_bad_in_a_row_ = report.skipped ? num_bad_in_a_row_ + 1 : 0;
  if (settings_.max_bad_steps == 0 || num_bad_in_a_row_ < settings_.max_bad_steps) return;
  throw Error(
      ExitCode::kTraining,
      fmt::format("loss or gradient was not finite {} times in a row", num_bad_in_a_row_),
      fmt::format("after step {}: {}", report.step, report.first_bad),
      "a lower lr, warmup_steps, or clip");
}

// ---- beside and after the steps

void Training::evaluate_model() {
  if (!eval_sampler_) return;
  const Stopwatch watch;
  const int64_t all = eval_sampler_->num_samples();
  const int64_t num_samples =
      settings_.eval_samples == 0 ? all : std::min(all, settings_.eval_samples);
  const Evaluation result = evaluate(*runner_, engine_->control(), *eval_sampler_, batch_,
                                     shape_.seq_len, num_samples);
  last_evaluation_ = engine_->num_steps();
  if (!is_first_rank()) return;
  metrics_->eval({last_evaluation_, result.loss, result.num_targets, watch.seconds()});
  print_line(fmt::format("eval {:>{}}/{} | loss {:.4f} | {} samples", last_evaluation_,
                         std::to_string(settings_.steps).size() + 1, settings_.steps,
                         result.loss, num_samples));
}

void Training::print_sample() {
  const GenerateOptions options{settings_.sample_tokens, settings_.sample_temperature,
                                static_cast<uint64_t>(settings_.seed), shape_.seq_len};
  const auto next_logits = [&](std::span<const int64_t> tokens) {
    return runner_->next_logits(tokens);
  };
  const std::vector<int64_t> tokens = generate(prompt_, options, next_logits);
  if (!is_first_rank()) return;
  const bool as_text = is_text(*source_);
  print_line(fmt::format("sample:\n{}{}{}", show_tokens(prompt_, as_text),
                         as_text ? "" : " ", show_tokens(tokens, as_text)));
}

void Training::finish() {
  if (last_evaluation_ != engine_->num_steps()) evaluate_model();
  if (!prompt_.empty()) print_sample();
  if (!settings_.dump_state.empty()) dump_state(settings_.dump_state, *engine_, losses_);
}

}  // namespace zero::launcher
