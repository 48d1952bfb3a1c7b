// What a run reads: its model's config, its data, the samples of these.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/file.h"
#include "engine/watch/activity.h"
#include "launcher/data/sampler.h"
#include "launcher/data/source.h"
#include "launcher/data/token_source.h"
#include "launcher/huggingface/adapter_folder.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/inference/generate.h"
#include "launcher/process/stop.h"
#include "launcher/process/world.h"
#include "launcher/run/console.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/training.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/chosen_model.h"
#include "launcher/settings/derived.h"
#include "launcher/settings/new_run.h"
#include "launcher/settings/values.h"
#include "launcher/text/prompt.h"
#include "launcher/text/python_child.h"
#include "launcher/text/text_options.h"
#include "launcher/text/tokenizer.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {

// A new one as settings say, or one that comes with its weights.
void Training::choose_model() {
  if (settings_.init_from.empty()) {
    if (!settings_.save_frozen)
      throw Error(ExitCode::kUsage, "the frozen weights of a new model are nowhere else",
                  "--save-frozen=false without --init-from",
                  "--init-from DIR, or leave it out");
    refuse_adapter_alone(settings_);
    family_ = find_family(models_, settings_.model);
    shape_ = new_shape(*family_, settings_);
    if (shape_.lora() && is_first_rank())
      warn(
          "the weights below the adapters are new, and --lora does not train them; "
          "--init-from DIR starts from a model that is there");
    return choose_frozen_type("fp32");
  }
  const std::unique_ptr<Ranks> ranks = world_.make_ranks();
  ModelFolder model = agree_on_model(settings_, models_, *ranks);
  family_ = find_family(models_, model.family);
  if (settings_.model != Settings().model && settings_.model != model.family) {
    throw Error(ExitCode::kUsage,
                fmt::format("model is {}, and the folder has a model of family {}",
                            settings_.model, model.family),
                settings_.init_from, "leave --model out");
  }
  shape_ = shape_of(*family_, model.config, settings_);
  identity_.source = model.source;
  choose_frozen_type(model.dtype);
  for (const std::string& note : model.notes) {
    if (is_first_rank()) tell(note);
  }
  if (!model.path.empty())
    folder_of_weights_ = std::make_unique<ModelFolder>(std::move(model));
}

// Of a model that is stored so.
void Training::choose_frozen_type(const std::string& stored) {
  is_rounded_ = settings_.frozen_dtype != "auto" && settings_.frozen_dtype != "fp32" &&
                settings_.frozen_dtype != stored;
  choose_frozen_dtype(settings_, stored, shape_.lora() != nullptr);
  if (is_rounded_ && !settings_.unfreeze_at.empty())
    throw Error(ExitCode::kUsage,
                "--unfreeze-at takes weights as they are on disk, and --frozen-dtype " +
                    settings_.frozen_dtype + " rounds",
                "--unfreeze-at", "--frozen-dtype auto");
  if (is_rounded_ && !settings_.save_frozen)
    throw Error(ExitCode::kUsage,
                "--save-frozen=false with --frozen-dtype " + settings_.frozen_dtype +
                    ", which rounds: what is trained with is on no disk",
                settings_.init_from, "--frozen-dtype auto, or leave --save-frozen out");
}

void Training::open_data() {
  batch_ = {settings_.global_batch, settings_.micro_batch, world_.size(), world_.rank()};
  const int group = parse_shard_over(settings_.shard_over).value();
  batch_.group = group == kRanksOfHost ? world_.local_size() : group;
  choose_model();
  require_loss(shape_);
  find_own_tokenizer();
  source_ = open_data_at(settings_.data);
  fit_to_data(shape_, *source_);
  refuse_other_tokens(*source_);
  make_samples();
  if (settings_.epochs > 0) count_steps();
  if (is_first_rank()) {  // reads every byte: once is enough
    Activity::Stretch reading("checking the data");
    reading.expect(source_->num_bytes() + (eval_source_ ? eval_source_->num_bytes() : 0));
    source_->check_ids(shape_.vocab(), sign_unless_stopped);
    for (const std::string& line :
         settings_.bytes ? std::vector<std::string>() : source_->warnings())
      warn(line);
    if (eval_source_) eval_source_->check_ids(shape_.vocab(), sign_unless_stopped);
  }
  if (is_first_rank()) show_sample();
  if (!settings_.sample.empty()) prepare_sample();
}

ExitCode Training::look_at_data() {
  process_ = set_up_process(settings_, world_);
  open_data();
  if (!is_first_rank()) return ExitCode::kDone;
  print_line("data " + source_->describe());
  if (eval_source_) print_line("eval " + eval_source_->describe());
  return ExitCode::kDone;
}

// Where only some of its tokens are trained.
void Training::show_sample() {
  const auto sample = source_->shown_sample(sample_shape(*family_, shape_, settings_));
  if (!sample) return;
  const auto tokenizer = open_tokenizer();
  if (tokenizer)
    tell_painted(fmt::format("what is trained of the first example ({}):\n{}",
                             printable(sample->where), marked_text(*sample, *tokenizer)));
}

// The same on all ranks; and the day that templates tell, whenever the run goes on.
void Training::find_own_tokenizer() {
  tokenizer_ = find_tokenizer(settings_);
  // All see what is in --out, but perhaps not other folders.
  if (settings_.tokenizer.empty() && settings_.init_from.empty()) return;
  const std::unique_ptr<Ranks> ranks = world_.make_ranks();
  tokenizer_ = agree_on_tokenizer(tokenizer_, *ranks);
  if (!tokenizer_.empty() && settings_.chat_date.empty())
    settings_.chat_date = ranks->broadcast(today());
}

bool Training::has_bytes() const {
  return tokenizer_.empty() && is_text(*family_, source_->vocab_size());
}

// Texts become tokens first, if there is a tokenizer.
std::unique_ptr<data::Source> Training::open_data_at(
    const std::vector<std::string>& paths) {
  if (tokenizer_.empty()) return open_source(*family_, paths, settings_);
  return open_source(*family_, paths, settings_, [&](const data::TokenSource& texts) {
    const std::unique_ptr<Ranks> ranks = world_.make_ranks();
    const TokenizedText text = tokenize(
        texts,
        text_options(settings_, tokenizer_, settings_.out + "/tokens", shape_.vocab()),
        world_.local_rank() == 0, *ranks);
    if (is_first_rank()) tell(describe(text));
    // Whatever becomes of the tokenizer's files.
    settings_.separator = text.separator;
    return text;
  });
}

// Tokens that are there need none.
std::unique_ptr<Tokenizer> Training::open_tokenizer() const {
  return open_if_possible(tokenizer_, child_command(settings_.python),
                          "tokens are not shown as text");
}

// A prompt that cannot be read is an error before the first step.
void Training::prepare_sample() {
  if (is_first_rank() && !tokenizer_.empty()) speaker_ = open_tokenizer();
  const std::unique_ptr<Ranks> ranks = world_.make_ranks();
  sample_prompt_ = parse_prompt(agree_on_prompt(settings_.sample, speaker_.get(),
                                                shape_.vocab(), *ranks, "--sample"),
                                has_bytes(), shape_.vocab(), "--sample");
  if (std::ssize(sample_prompt_) >= shape_.seq_len)
    throw Error(
        ExitCode::kUsage,
        fmt::format("sample has {} tokens, which leaves no room in a context of {}",
                    sample_prompt_.size(), shape_.seq_len),
        "--sample", "a shorter text");
  if (settings_.sample_ignore_eos) return;
  sample_ends_ =
      agree_on_ends({}, has_bytes(), speaker_.get(), settings_.separator, *ranks);
}

// The small files of --init-from; those of another tokenizer come from there.
void Training::keep_source(const std::string& folder) const {
  std::vector<std::string> files = companions_in(folder);
  if (!settings_.tokenizer.empty()) std::erase_if(files, is_of_tokenizer);
  files.emplace_back("config.json");
  copy_files(folder, files, source_folder(settings_.out));
}

// Of --tokenizer, into a run that begins.
void Training::keep_tokenizer() const {
  if (settings_.tokenizer.empty() || tokenizer_.empty()) return;
  const auto [folder, name] = checkpoint::split_path(tokenizer_);
  std::vector<std::string> files = companions_in(folder);
  if (!settings_.init_from.empty())
    std::erase_if(files, [](const auto& file) { return !is_of_tokenizer(file); });
  if (name != "tokenizer.json") std::erase(files, "tokenizer.json");
  copy_files(folder, files, source_folder(settings_.out));
  if (name != "tokenizer.json")
    copy_as(tokenizer_, source_folder(settings_.out), "tokenizer.json");
}

// Weights that are there belong to tokens of their own.
void Training::refuse_other_tokens(const data::Source& source) const {
  if (!settings_.init_from.empty() && tokenizer_.empty())
    refuse_text(*family_, source, shape_.vocab(), settings_.init_from);
}

namespace {

// Numbers of tokens are no bytes of texts.
void require_same_kind(const data::Source& trained, const data::Source& evaluated) {
  const auto* one = dynamic_cast<const data::TokenSource*>(&trained);
  const auto* other = dynamic_cast<const data::TokenSource*>(&evaluated);
  if (!one || !other || one->is_text() == other->is_text()) return;
  throw data::DataError(fmt::format("{} is text, and {} is tokens",
                                    one->is_text() ? "--data" : "--eval-data",
                                    one->is_text() ? "--eval-data" : "--data"),
                        other->where(), "both of one kind");
}

}  // namespace

void Training::make_samples() {
  const auto seed = static_cast<uint64_t>(settings_.seed);
  const data::SampleShape shape = sample_shape(*family_, shape_, settings_);
  const int64_t num_samples = source_->num_samples(shape);
  if (is_first_rank())
    for (const std::string& note : source_->notes(shape)) tell(note);
  const data::Split split = data::split_samples(num_samples, settings_.eval_fraction);
  data::SampleShape trained = shape;
  trained.is_augmented = settings_.augment;
  samples_ = source_->samples(trained, {settings_.shuffle, seed, split.trained});
  if (split.held_out.count > 0)
    eval_samples_ = source_->samples(shape, {false, seed, split.held_out});
  if (settings_.eval_data.empty()) return require_evaluation(num_samples);
  eval_source_ = open_data_at(settings_.eval_data);
  refuse_other_tokens(*eval_source_);
  require_same_kind(*source_, *eval_source_);
  require_classes(*eval_source_, source_->class_names());
  if (is_first_rank())
    for (const std::string& note : eval_source_->notes(shape)) tell(note);
  eval_samples_ = eval_source_->samples(shape, {false, seed});
}

// Of --epochs; of a run that goes on, those before included. A norm over a batch wants no
// empty images: the last short batch of those is left out.
void Training::count_steps() {
  const int64_t all = settings_.epochs * samples_->num_samples();
  const bool is_of_images = family_->task == Task::kImages;
  const int64_t left = std::max<int64_t>(0, all - progress_.num_samples);
  batch_.end = is_of_images ? progress_.num_samples +
                                  left / batch_.global_batch * batch_.global_batch
                            : all;
  if (batch_.end == 0)
    throw Error(ExitCode::kUsage,
                fmt::format("{} images are no batch of {}", all, batch_.global_batch),
                source_->where(), "a smaller --global-batch, or more --epochs");
  settings_.steps = progress_.num_batches +
                    num_batches(progress_.num_samples, batch_.end, batch_.global_batch);
  choose_warmup(settings_);
  schedule_ = told_options(settings_).schedule;
}

// Where the user relies on it.
void Training::require_evaluation(int64_t num_samples) const {
  if (eval_samples_ || settings_.eval_fraction == 0) return;
  const std::string setting = settings_.keep_best        ? "keep_best"
                              : settings_.eval_every > 0 ? "eval_every"
                              : settings_.eval_samples != Settings().eval_samples
                                  ? "eval_samples"
                                  : "";
  if (setting.empty()) return;
  throw Error(ExitCode::kUsage,
              fmt::format("{} needs data to evaluate on, and of {} samples none are held "
                          "out",
                          setting, num_samples),
              source_->where(), "--eval-data PATH...; or data of 100 samples or more");
}

}  // namespace zero::launcher
