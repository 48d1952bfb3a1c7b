// The loss of a checkpoint's model on data.
#include <fmt/format.h>

#include <functional>
#include <memory>

#include "launcher/commands/eval_choices.h"
#include "launcher/commands/use_checkpoint.h"
#include "launcher/data/sampler.h"
#include "launcher/data/source.h"
#include "launcher/data/token_source.h"
#include "launcher/huggingface/model_folder.h"
#include "launcher/inference/evaluate.h"
#include "launcher/inference/target_records.h"
#include "launcher/run/console.h"
#include "launcher/run/lines.h"
#include "launcher/run/new_file.h"
#include "launcher/run/runner.h"
#include "launcher/settings/chosen_data.h"
#include "launcher/settings/config.h"
#include "launcher/settings/values.h"
#include "launcher/text/prompt.h"
#include "launcher/text/text_options.h"
#include "zero/engine.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

// Else what is evaluated may be what was trained on. Collective.
void require_same_data(const LoadedModel& loaded, const data::Source& source) {
  const DataIdentity& before = loaded.checkpoint.run.data;
  if (loaded.checkpoint.is_model_folder || before == DataIdentity{}) return;
  const bool reads_all = loaded.is_first_of_host && !before.hash.empty();
  const DataIdentity now = agree_on_data(source, reads_all, loaded.engine->control());
  if (now != before)
    throw Error(ExitCode::kData, "the run's data have changed since it was saved",
                source.where(), "the data as they were; or --data PATH... for others");
}

// Of the run's own data, those that it held out, if any.
std::unique_ptr<data::Samples> samples_for(const LoadedModel& loaded, bool are_own,
                                           const data::Source& source) {
  const data::SampleShape shape =
      sample_shape(*loaded.family, loaded.shape, loaded.settings);
  const Settings& settings = loaded.settings;
  data::SampleOrder order{.shuffle = false};
  if (are_own)
    order.range =
        data::split_samples(source.num_samples(shape), settings.eval_fraction).held_out;
  return source.samples(shape, order);
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

// Those of all ranks, in the order of the samples.
EvaluationHooks telling_targets(Ranks& ranks, const WriteBytes& write) {
  return {.on_targets = [&ranks, write](const Batch& batch, const Scores& scores,
                                        int64_t first, int64_t count) {
    for (const std::string& records :
         ranks.gather(target_records(batch, scores.target_losses, first, count)))
      write(records);
  }};
}

// Is the run's own data what is evaluated? Then they are taken as the run took them:
// other files, shares or examples would move what it held out.
bool takes_own_data(const CommandLine& line, LoadedModel& loaded) {
  Settings& settings = loaded.settings;
  if (line.flags.contains("data") || !settings.eval_data.empty()) return false;
  const Settings& saved = loaded.checkpoint.run.settings;
  if (loaded.checkpoint.is_model_folder || saved.data.empty()) return true;
  settings.data = saved.data;
  settings.eval_fraction = saved.eval_fraction;
  if (saved.too_long != "error" && settings.too_long != saved.too_long)
    throw Error(ExitCode::kUsage,
                fmt::format("the run trained with too_long {}, and held out others of "
                            "its examples than {} would",
                            saved.too_long, settings.too_long),
                "--too-long", "leave it out; or --data PATH... for other data");
  const int64_t seq_len =
      shape_of_run(*loaded.family, loaded.checkpoint.run, saved).seq_len;
  if (saved.eval_fraction > 0 && loaded.shape.seq_len != seq_len)
    throw Error(ExitCode::kUsage,
                fmt::format("the run held out samples of {} tokens, which those of {} "
                            "would not be",
                            seq_len, loaded.shape.seq_len),
                "--seq-len", "leave it out; or --data PATH... for other data");
  return true;
}

// Do texts become other tokens than the run's?
bool changes_texts(const LoadedModel& loaded) {
  return std::ranges::any_of(
      split("tokenizer text_key separator train_on end_of_turn special_in_content "
            "chat_date",
            ' '),
      [&](const std::string& key) {
        // Left out, it is the run's own.
        if (key == "tokenizer" && loaded.settings.tokenizer.empty()) return false;
        const Setting& setting = *find_setting(key);
        return setting.value(loaded.settings) !=
               setting.value(loaded.checkpoint.run.settings);
      });
}

ExitCode evaluate_on(const VerbCall& call, LoadedModel& loaded) {
  const CommandLine& line = call.line;
  const bool is_first = loaded.batch.rank == 0;
  const ModelShape& shape = loaded.shape;
  const bool are_own = takes_own_data(line, loaded);
  const std::unique_ptr<data::Source> source =
      open_texts(data_for(line, loaded.settings), loaded);
  const std::string& weights = loaded.checkpoint.is_model_folder
                                   ? loaded.checkpoint.folder
                                   : loaded.settings.init_from;
  if (!weights.empty() && tokenizer_path(loaded).empty())
    refuse_text(*loaded.family, *source, shape.vocab(), weights);
  require_classes(*source, loaded.checkpoint.run.classes);
  if (is_first) source->check_ids(shape.vocab());
  if (are_own && !changes_texts(loaded)) require_same_data(loaded, *source);
  for (const std::string& note :
       source->notes(sample_shape(*loaded.family, shape, loaded.settings)))
    if (is_first) tell(note);
  const std::unique_ptr<data::Samples> samples = samples_for(loaded, are_own, *source);
  const int64_t num_samples = samples_to_evaluate(*samples, loaded.settings);
  Ranks& ranks = loaded.engine->control();
  const bool tells_targets = loaded.settings.eval_per_token;
  Evaluation result;
  const auto run = [&](const EvaluationHooks& hooks) {
    result = *evaluate(*loaded.runner, ranks, *samples, loaded.batch, num_samples, hooks);
  };
  if (tells_targets)
    write_result(is_first, line.to, {"--to FILE", "log probabilities"},
                 [&](const WriteBytes& write) { run(telling_targets(ranks, write)); });
  else
    run({});
  if (!is_first) return ExitCode::kDone;
  const std::string told =
      fmt::format("eval step {} | {} | {} of {} samples | {}", loaded.step,
                  evaluation_text(result.loss, result.accuracy, loaded.family->task, 6),
                  num_samples, samples->num_samples(), loaded.checkpoint.folder);
  // What was asked for is told, however quiet; stdout may have the records.
  if (tells_targets && line.to.empty())
    write_out(stderr, told + "\n");
  else
    print_line(told);
  return ExitCode::kDone;
}

int eval(const VerbCall& call) {
  return use_checkpoint("eval", call, [&](LoadedModel& loaded) {
    const auto given = [&](const char* key) { return call.line.flags.contains(key); };
    const bool per_token = loaded.settings.eval_per_token;
    if (given("data") && given("eval_choices"))
      reject("data and questions are given", "--data, --choices", "one of them");
    if (per_token && given("eval_choices"))
      reject("--choices tells log likelihoods of choices, not of tokens",
             "--choices, --per-token", "one of them");
    if (per_token) require_task(loaded, Task::kLanguage, "eval --per-token");
    if (loaded.settings.eval_choices.empty() || given("data") || per_token) {
      if (!call.line.to.empty() && !per_token)
        reject("--to is for what --choices asks, and for --per-token", "--to",
               "--choices FILE, or --data PATH... --per-token");
      return evaluate_on(call, loaded);
    }
    require_task(loaded, Task::kLanguage, "eval --choices");
    return evaluate_choices(loaded, call.line.to);
  });
}

}  // namespace

Verb eval_verb() {
  return {.name = "eval",
          .summary = "the loss of a model on data, or choices (eval DIR --data PATH...)",
          .run = eval,
          .head = head_with_settings("eval", "DIR [--data PATH...]", kCheckpoints),
          .lines = {kDirLine,
                    {"--choices FILE",
                     "how often the likeliest of several ends of a "
                     "prompt is the right one: JSONL with prompt, "
                     "choices and answer"},
                    {"--per-token",
                     "the log probability of each token of the data: a line of JSON for "
                     "each sample"},
                    {"--to FILE", "a new file for what these two tell"},
                    kConfigLine},
          .settings =
              kMachine +
              " seed data bytes tokenizer text_key separator token_cache python "
              "train_on end_of_turn special_in_content chat_date too_long pack "
              "eval_data eval_samples eval_choices eval_per_token micro_batch loss_chunk",
          .own_flags = {{"--choices", "eval_choices"}, {"--per-token", "eval_per_token"}},
          .folder = kStepOrModelFolder};
}

}  // namespace zero::launcher
