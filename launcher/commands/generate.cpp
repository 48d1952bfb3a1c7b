// Prompts, continued by a checkpoint's model.
#include "launcher/commands/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "launcher/huggingface/generation_config.h"
#include "launcher/process/process.h"
#include "launcher/run/console.h"
#include "launcher/run/run_folder.h"
#include "launcher/run/runner.h"
#include "launcher/settings/config.h"
#include "launcher/text/python_child.h"
#include "launcher/text/text_options.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

// Null: there is none, or it cannot be had and the prompt needs none. A chat does.
std::unique_ptr<Tokenizer> tokenizer_for(const LoadedModel& loaded, bool is_chat) {
  const std::string path = tokenizer_path(loaded);
  if (path.empty()) return nullptr;
  return !is_chat && is_of_numbers(loaded.settings.sample)
             ? open_if_possible(path, child_command(loaded.settings.python),
                                "tokens are shown as numbers")
             : open_tokenizer(loaded);
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

// Of one prompt; the first rank speaks.
class Speaker : public Speaking {
 public:
  // Collective, before the model is loaded. ends: those that the model's files name. Of a
  // chat the prompt is what a user says.
  Speaker(LoadedModel& loaded, const TokenRow& ends, bool is_chat, Ranks& ranks)
      : Speaking(loaded,
                 loaded.batch.rank == 0 ? tokenizer_for(loaded, is_chat) : nullptr),
        is_chat_(is_chat) {
    is_chat ? read_question(ends, ranks) : read_prompt(ends, ranks);
    require_room(std::ssize(begin_.tokens), loaded.shape.seq_len);
    if (settings_.sample_ignore_eos) begin_.ends.clear();
    loaded.texts = texts_at_once({begin_}, settings_, loaded.shape);
    loaded.texts.rows = std::min(settings_.sample_count, settings_.sample_batch);
  }

  ExitCode speak() override {
    Ranks& ranks = loaded_.engine->control();
    const int64_t all = settings_.sample_count;
    TextManner manner = made_together(plain_manner(), ranks);
    manner.shows_prompt = !is_chat_;
    if (all == 1 && is_first_)
      manner.show = [](const std::string& piece) { print_text(piece); };
    ReadingTimes times;
    for (int64_t first = 0; first < all; first += loaded_.texts.rows) {
      std::vector<TextBegin> begins(std::min(all - first, loaded_.texts.rows), begin_);
      for (size_t i = 0; i < begins.size(); ++i)
        begins[i].sample = static_cast<uint32_t>(first) + static_cast<uint32_t>(i);
      TimedReader reader(
          loaded_.runner->reader({std::ssize(begins), loaded_.texts.tokens}), times);
      const auto texts = make_texts(reader, begins, settings_, loaded_.shape, manner);
      for (size_t i = 0; i < texts.size(); ++i) {
        if (is_first_ && all > 1)
          print_text(printable(fmt::format("--- {} of {}\n{}{}", begins[i].sample + 1,
                                           all, texts[i].prompt, texts[i].text)));
        tell_end(texts[i].end.finish);
      }
    }
    if (is_first_) tell_aside(times.describe(peak_resident_bytes()));
    return ExitCode::kDone;
  }

 private:
  void read_question(const TokenRow& ends, Ranks& ranks) {
    if (is_first_ && !tokenizer_)
      throw Error(ExitCode::kUsage, "there is no tokenizer, and so no chat template",
                  loaded_.checkpoint.folder, "--tokenizer DIR; or --prompt TEXT");
    auto [tokens, closing] = agree_on_question(
        settings_.sample, text_options(settings_, "", "", loaded_.shape.vocab()),
        tokenizer_.get(), ranks);
    begin_ = {
        .tokens = std::move(tokens), .ends = std::move(closing), .is_answered = true};
    begin_.ends.insert(begin_.ends.end(), ends.begin(), ends.end());
  }

  void read_prompt(const TokenRow& ends, Ranks& ranks) {
    const bool is_text = loaded_.checkpoint.run.is_text;
    const std::string prompt =
        agree_on_prompt(settings_.sample, tokenizer_.get(), loaded_.shape.vocab(), ranks);
    begin_.ends =
        agree_on_ends(ends, is_text, tokenizer_.get(), settings_.separator, ranks);
    begin_.tokens = parse_prompt(prompt, is_text, loaded_.shape.vocab());
  }

  void tell_end(Finish finish) const {
    if (!is_first_) return;
    print_line("");
    if (const std::string end = early_end(finish, loaded_.shape.seq_len); !end.empty())
      warn(end);
  }

  const bool is_chat_;
  TextBegin begin_;
};

// What the command line asks for.
enum class Wanted { kPrompt, kChat, kPrompts, kTalk };

Wanted asked_for(const CommandLine& line, const Settings& settings) {
  const auto given = line.flags.find("sample");
  const bool has_prompt = given != line.flags.end();
  const bool has_file = line.flags.contains("sample_prompts");
  if (has_prompt && has_file)
    reject("a prompt and a file of prompts are given",
           given->second.origin + ", --prompts", "one of them");
  const bool talks = settings.sample_interactive;
  if (talks && (has_prompt || has_file || settings.sample_count > 1))
    reject("prompts or several samples are asked for beside what is typed",
           "--interactive", "without --prompt, --chat, --prompts and --num-samples");
  if (!settings.sample_prompts.empty() && !has_prompt && !talks) return Wanted::kPrompts;
  if (!line.to.empty())
    reject("--to is for texts of --prompts alone", "--to",
           "--prompts FILE; or zero_launch generate ... > FILE");
  if (line.flags.contains("sample_log_probs"))
    reject("log probabilities are told of --prompts alone", "--log-probs",
           "--prompts FILE, of one line");
  if (talks) return Wanted::kTalk;
  return has_prompt && given->second.origin == "--chat" ? Wanted::kChat : Wanted::kPrompt;
}

// Prompts, continued by a checkpoint's model.
int generate_text(const VerbCall& call) {
  std::unique_ptr<Speaking> speaking;
  const auto prepare = [&](LoadedModel& loaded, Ranks& ranks) {
    require_task(loaded, Task::kLanguage, "generate");
    const GenerationConfig config = generation_of(loaded);
    take_over_generation(call, config, loaded);
    const Wanted asked = asked_for(call.line, loaded.settings);
    if (asked == Wanted::kPrompts) {
      speaking = prepare_many(loaded, config.ends, call.line.to, ranks);
    } else if (asked == Wanted::kTalk) {
      const bool has_limit =
          given_values(call.line, call.environment).contains("sample_tokens");
      speaking = prepare_talk(loaded, config.ends, has_limit, ranks);
    } else {
      speaking =
          std::make_unique<Speaker>(loaded, config.ends, asked == Wanted::kChat, ranks);
    }
  };
  return use_checkpoint(
      "generate", call, [&](LoadedModel&) { return speaking->speak(); }, prepare);
}

}  // namespace

Asking Speaking::agree_on_asking(const TokenRow& ends, Ranks& ranks) const {
  const bool is_text = loaded_.checkpoint.run.is_text;
  return {tokenizer_.get(), is_text,
          text_options(settings_, "", "", loaded_.shape.vocab()),
          agree_on_ends(ends, is_text, is_first_ ? tokenizer_.get() : nullptr,
                        settings_.separator, ranks),
          ends};
}

TextManner Speaking::plain_manner() const {
  return {.is_text = loaded_.checkpoint.run.is_text,
          .shows_prompt = false,
          .speech = [this](int64_t text) { return speech_of(tokenizer_.get(), text); }};
}

Verb generate_verb() {
  return {
      .name = "generate",
      .summary = "prompts, continued by a model (generate DIR --prompt TEXT)",
      .run = generate_text,
      .head = head_with_settings("generate", "DIR --prompt TEXT", kCheckpoints),
      .lines = {kDirLine,
                {"--prompt TEXT", "the text that is continued"},
                {"--chat TEXT",
                 "what a user says, by the tokenizer's chat template; the "
                 "model answers"},
                {"--prompts FILE",
                 "all of a file: lines, or JSONL with prompt or "
                 "messages; a line of JSON for each text"},
                {"--to FILE", "where these go; one that is there is gone on with"},
                {"--log-probs", "with the log probability of each token"},
                {"--interactive",
                 "answers to what is typed, a conversation where the model has a "
                 "chat template"},
                {"--num-tokens N", "tokens that are added"},
                {"--num-samples N", "texts that are made of a prompt"},
                {"--batch N", "texts that are made together"},
                {"--temperature X", "0: always the likeliest token"},
                {"--top-k N", "draw from the N likeliest alone"},
                {"--top-p X", "from the likeliest, X likely together"},
                {"--min-p X", "from those at least X times as likely as the likeliest"},
                {"--repetition-penalty X", "of tokens that the text has already"},
                {"--stop TEXT...", "end before one of these texts"},
                {"--greedy, --ignore-eos",
                 "always the likeliest token; go on behind an end of text"},
                kConfigLine},
      .settings =
          kMachine +
          " tokenizer python separator end_of_turn special_in_content "
          "chat_date micro_batch loss_chunk sample sample_tokens "
          "sample_prompts sample_interactive sample_count sample_batch sample_log_probs "
          "sample_temperature sample_greedy sample_top_k sample_top_p "
          "sample_min_p sample_repetition_penalty sample_stop "
          "sample_ignore_eos seed",
      // What it does with a prompt is what a run does with a sample.
      .own_flags = {{"--prompt", "sample"},
                    {"--chat", "sample"},
                    {"--num-tokens", "sample_tokens"},
                    {"--prompts", "sample_prompts"},
                    {"--interactive", "sample_interactive"},
                    {"--num-samples", "sample_count"},
                    {"--batch", "sample_batch"},
                    {"--log-probs", "sample_log_probs"},
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
