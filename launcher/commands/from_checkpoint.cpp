// The verbs that measure a checkpoint's model, or let it write: eval, generate.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <utility>

#include "checkpoint/file.h"
#include "launcher/commands/use_checkpoint.h"
#include "launcher/data/source.h"
#include "launcher/data/token_source.h"
#include "launcher/huggingface/generation_config.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/inference/evaluate.h"
#include "launcher/inference/generate.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/config.h"
#include "launcher/text/prompt.h"
#include "launcher/text/python_child.h"
#include "launcher/text/text_options.h"
#include "launcher/text/tokenizer.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

// Of the run's own data, those that it held out, if any.
std::unique_ptr<data::Samples> samples_for(const CommandLine& line,
                                           const LoadedModel& loaded,
                                           const data::Source& source) {
  const data::SampleShape shape =
      sample_shape(*loaded.family, loaded.shape, loaded.settings);
  const Settings& settings = loaded.settings;
  const bool is_own = !line.flags.contains("data") && settings.eval_data.empty();
  data::SampleOrder order{.shuffle = false};
  if (is_own)
    order.range =
        data::split_samples(source.num_samples(shape), settings.eval_fraction).held_out;
  return source.samples(shape, order);
}

// The folder in which the run of a checkpoint is.
std::string run_of(const FoundCheckpoint& checkpoint) {
  return checkpoint::split_path(checkpoint.folder).folder;
}

// The tokenizer.json of --tokenizer, of a folder of Hugging Face, or of the run; "":
// there is none, or tokens are bytes.
std::string tokenizer_path(const LoadedModel& loaded) {
  if (!loaded.settings.tokenizer.empty())
    return require_tokenizer(loaded.settings.tokenizer, "--tokenizer");
  const FoundCheckpoint& from = loaded.checkpoint;
  if (from.run.is_text) return "";
  return tokenizer_of(from.is_model_folder ? from.folder : source_folder(run_of(from)));
}

// Texts become tokens first, if there is a tokenizer.
std::unique_ptr<data::Source> open_texts(const std::vector<std::string>& paths,
                                         const LoadedModel& loaded) {
  const std::string tokenizer =
      agree_on_tokenizer(tokenizer_path(loaded), loaded.engine->control());
  if (tokenizer.empty()) return open_source(*loaded.family, paths, loaded.settings);
  const std::string folder = loaded.checkpoint.is_model_folder
                                 ? folder_of_user() + "/tokens"
                                 : run_of(loaded.checkpoint) + "/tokens";
  return open_source(
      *loaded.family, paths, loaded.settings, [&](const data::TokenSource& texts) {
        return tokenize(
            texts, text_options(loaded.settings, tokenizer, folder, loaded.shape.vocab()),
            loaded.is_first_of_host, loaded.engine->control());
      });
}

void evaluate_on(const CommandLine& line, LoadedModel& loaded) {
  const bool is_first = loaded.batch.rank == 0;
  const ModelShape& shape = loaded.shape;
  const std::unique_ptr<data::Source> source =
      open_texts(data_for(line, loaded.settings), loaded);
  const std::string& weights = loaded.checkpoint.is_model_folder
                                   ? loaded.checkpoint.folder
                                   : loaded.settings.init_from;
  if (!weights.empty() && tokenizer_path(loaded).empty())
    refuse_text(*loaded.family, *source, shape.vocab(), weights);
  require_classes(*source, loaded.checkpoint.run.classes);
  if (is_first) source->check_ids(shape.vocab());
  for (const std::string& note :
       source->notes(sample_shape(*loaded.family, shape, loaded.settings)))
    if (is_first) tell(note);
  const std::unique_ptr<data::Samples> samples = samples_for(line, loaded, *source);
  const int64_t num_samples = samples_to_evaluate(*samples, loaded.settings);
  const Evaluation result = *evaluate(*loaded.runner, loaded.engine->control(), *samples,
                                      loaded.batch, num_samples);
  if (!is_first) return;
  print_line(
      fmt::format("eval step {} | {} | {} of {} samples | {}", loaded.step,
                  evaluation_text(result.loss, result.accuracy, loaded.family->task, 6),
                  num_samples, samples->num_samples(), loaded.checkpoint.folder));
}

// The loss of a checkpoint's model on data.
int eval(const VerbCall& call) {
  return use_checkpoint("eval", call,
                        [&](LoadedModel& loaded) { evaluate_on(call.line, loaded); });
}

// Null: there is none, or it cannot be had and the prompt needs none.
std::unique_ptr<Tokenizer> tokenizer_for(const LoadedModel& loaded) {
  const std::string path = tokenizer_path(loaded);
  if (path.empty()) return nullptr;
  const std::vector<std::string> command = child_command(loaded.settings.python);
  return is_of_numbers(loaded.settings.sample)
             ? open_if_possible(path, command, "tokens are shown as numbers")
             : std::make_unique<Tokenizer>(path, command);
}

GenerationConfig generation_of(const LoadedModel& loaded) {
  const FoundCheckpoint& from = loaded.checkpoint;
  const std::string folder =
      from.is_model_folder ? from.folder : source_folder(run_of(from));
  return std::filesystem::is_directory(folder) ? read_generation_config(folder)
                                               : GenerationConfig();
}

void take_over_generation(const VerbCall& call, const GenerationConfig& config,
                          LoadedModel& loaded) {
  const RawValues given = given_values(call.line, call.environment);
  const auto is_given = [&](const std::string& key) { return given.contains(key); };
  for (const std::string& line :
       take_over(config, loaded.checkpoint.is_model_folder, is_given, loaded.settings))
    if (loaded.batch.rank == 0) tell_aside(line);
}

// Of generate; the first rank speaks.
class Speaker {
 public:
  // ends: those that the model's files name.
  Speaker(const LoadedModel& loaded, TokenRow ends)
      : loaded_(loaded),
        ends_(std::move(ends)),
        settings_(loaded.settings),
        ranks_(loaded.engine->control()),
        is_first_(loaded.batch.rank == 0),
        tokenizer_(is_first_ ? tokenizer_for(loaded) : nullptr) {}

  // What a user says, by the chat template.
  void answer_user() {
    if (is_first_ && !tokenizer_)
      throw Error(ExitCode::kUsage, "there is no tokenizer, and so no chat template",
                  loaded_.checkpoint.folder, "--tokenizer DIR; or --prompt TEXT");
    auto [tokens, ends] = agree_on_question(
        settings_.sample, text_options(settings_, "", "", loaded_.shape.vocab()),
        tokenizer_.get(), ranks_);
    ends.insert(ends.end(), ends_.begin(), ends_.end());
    make_texts(tokens, ends, /*shows_prompt=*/false);
  }

  void continue_prompt() {
    const bool is_text = loaded_.checkpoint.run.is_text;
    const std::string prompt = agree_on_prompt(settings_.sample, tokenizer_.get(),
                                               loaded_.shape.vocab(), ranks_);
    const TokenRow ends =
        agree_on_ends(ends_, is_text, tokenizer_.get(), settings_.separator, ranks_);
    make_texts(parse_prompt(prompt, is_text, loaded_.shape.vocab()), ends,
               /*shows_prompt=*/true);
  }

 private:
  static constexpr int64_t kTextsAtOnce = 16;

  void make_texts(const TokenRow& prompt, const TokenRow& ends, bool shows_prompt) {
    const int64_t all = settings_.sample_count;
    const auto show = [this](const std::string& piece) {
      if (is_first_) print_text(piece);
    };
    const TextManner manner{
        .is_text = loaded_.checkpoint.run.is_text,
        .shows_prompt = shows_prompt,
        .ends = ends,
        .show = all == 1 ? Show(show) : Show(),
        .speech = [this](int64_t text) { return speech_of(tokenizer_.get(), text); },
        .sees_stop =
            [this](bool saw) {
              return ranks_.largest(is_first_ && saw, "stop text") > 0;
            },
        .agree = agreement_of(ranks_)};
    for (int64_t first = 0; first < all; first += kTextsAtOnce) {
      const int64_t count = std::min(all - first, kTextsAtOnce);
      TimedReader reader(loaded_.runner->reader(count));
      const auto texts =
          *sample_texts(reader, prompt, count, settings_, loaded_.shape, manner, first);
      for (int64_t i = 0; i < count; ++i) {
        if (is_first_ && all > 1)
          print_text(fmt::format("--- {} of {}\n{}{}", first + i + 1, all,
                                 texts[i].prompt, texts[i].text));
        tell_end(texts[i].finish);
      }
      if (is_first_) tell_more(reader.describe());
    }
  }

  void tell_end(Finish finish) const {
    if (!is_first_) return;
    print_line("");
    if (finish == Finish::kContext)
      warn(fmt::format("the text ends by length: the context of {} tokens is full",
                       loaded_.shape.seq_len));
  }

  const LoadedModel& loaded_;
  const TokenRow ends_;
  const Settings& settings_;
  Ranks& ranks_;
  const bool is_first_;
  const std::unique_ptr<Tokenizer> tokenizer_;
};

// A prompt, continued by a checkpoint's model.
int generate_text(const VerbCall& call) {
  return use_checkpoint("generate", call, [&](LoadedModel& loaded) {
    require_task(loaded, Task::kLanguage, "generate");
    const GenerationConfig config = generation_of(loaded);
    take_over_generation(call, config, loaded);
    Speaker speaker(loaded, config.ends);
    const auto given = call.line.flags.find("sample");
    const bool is_chat =
        given != call.line.flags.end() && given->second.origin == "--chat";
    is_chat ? speaker.answer_user() : speaker.continue_prompt();
  });
}

}  // namespace

Verb eval_verb() {
  return {.name = "eval",
          .summary = "the loss of a model on data (eval DIR --data PATH...)",
          .run = eval,
          .head = head_with_settings("eval", "DIR [--data PATH...]", kCheckpoints),
          .lines = {kDirLine, kConfigLine},
          .settings = kMachine +
                      " seed data bytes tokenizer text_key separator token_cache python "
                      "train_on end_of_turn special_in_content chat_date too_long pack "
                      "eval_data eval_samples micro_batch loss_chunk",
          .folder = kStepOrModelFolder};
}

Verb generate_verb() {
  return {.name = "generate",
          .summary = "a prompt, continued by a model (generate DIR --prompt TEXT)",
          .run = generate_text,
          .head = head_with_settings("generate", "DIR --prompt TEXT", kCheckpoints),
          .lines = {kDirLine,
                    {"--prompt TEXT", "the text that is continued"},
                    {"--chat TEXT",
                     "what a user says, by the tokenizer's chat template; the "
                     "model answers"},
                    {"--num-tokens N", "tokens that are added"},
                    {"--num-samples N", "texts that are made of the prompt, together"},
                    {"--temperature X", "0: always the likeliest token"},
                    {"--top-k N, --top-p X, --min-p X", "draw from the likeliest alone"},
                    {"--repetition-penalty X", "of tokens that the text has already"},
                    {"--stop TEXT...", "end before one of these texts"},
                    {"--greedy, --ignore-eos",
                     "always the likeliest token; go on behind an end of text"},
                    kConfigLine},
          .settings =
              kMachine +
              " tokenizer python separator end_of_turn special_in_content "
              "chat_date micro_batch loss_chunk sample sample_tokens "
              "sample_count sample_temperature sample_greedy sample_top_k sample_top_p "
              "sample_min_p sample_repetition_penalty sample_stop "
              "sample_ignore_eos seed",
          // What it does with a prompt is what a run does with a sample.
          .own_flags = {{"--prompt", "sample"},
                        {"--chat", "sample"},
                        {"--num-tokens", "sample_tokens"},
                        {"--num-samples", "sample_count"},
                        {"--temperature", "sample_temperature"},
                        {"--greedy", "sample_greedy"},
                        {"--top-k", "sample_top_k"},
                        {"--top-p", "sample_top_p"},
                        {"--min-p", "sample_min_p"},
                        {"--repetition-penalty", "sample_repetition_penalty"},
                        {"--stop", "sample_stop"},
                        {"--ignore-eos", "sample_ignore_eos"}},
          .folder = kStepOrModelFolder};
}

}  // namespace zero::launcher
