#include "launcher/commands/verbs.h"
#include "launcher/data/token_source.h"
#include "launcher/process/stop.h"
#include "launcher/run/console.h"
#include "launcher/settings/config.h"
#include "launcher/text/text_options.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

std::string require_place(const Settings& settings) {
  if (!settings.token_cache.empty()) return settings.token_cache;
  if (!settings.out.empty()) return settings.out + "/tokens";
  throw Error(
      ExitCode::kUsage, "there is no folder for the tokens", "tokenize",
      "--token-cache DIR; or --out DIR, the folder of the run that will use them");
}

// What a run would do with its texts first.
int tokenize_texts(const VerbCall& call) {
  if (call.rank() > 0) return static_cast<int>(ExitCode::kDone);
  catch_stop_signals();
  const Settings settings = read_settings(call.line, call.environment,
                                          {.verb = "tokenize", .models = &call.models});
  const std::string place = require_place(settings);
  if (settings.data.empty() && settings.eval_data.empty())
    throw Error(ExitCode::kUsage, "the data is missing", "tokenize",
                "--data PATH...: text files, folders of them, or JSONL");
  const std::string tokenizer = find_tokenizer(settings);
  if (tokenizer.empty())
    throw Error(ExitCode::kUsage, "the tokenizer is missing", "tokenize",
                "--tokenizer DIR: a model's folder that has a tokenizer.json");
  const TextOptions options = text_options(settings, tokenizer, place);
  for (const auto* paths : {&settings.data, &settings.eval_data}) {
    if (paths->empty()) continue;
    const data::TokenSource texts(*paths, data::Texts::kPlainOrGzip);
    if (!texts.is_text())
      throw Error(ExitCode::kUsage, "these are tokens already", texts.where(),
                  "--data with text files, folders of them, or JSONL");
    print_line(describe(tokenize(texts, options)));
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

Verb tokenize_verb() {
  return {.name = "tokenize",
          .summary = "texts as tokens, which train makes itself (--tokenizer DIR)",
          .run = tokenize_texts,
          .head =
              "zero_launch tokenize --tokenizer DIR --data PATH... --out DIR"
              "\n\nMakes the tokens that train with the same settings finds.",
          .lines = {kConfigLine},
          .settings =
              "tokenizer data eval_data text_key separator token_cache python train_on "
              "end_of_turn special_in_content chat_date out",
          .has_groups = false};
}

}  // namespace zero::launcher
