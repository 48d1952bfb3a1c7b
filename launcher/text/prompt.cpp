#include "launcher/text/prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/processes.h"
#include "launcher/data/token_file.h"
#include "launcher/run/console.h"
#include "launcher/text/tokenizer.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {
namespace {

// The first rank's.
TokenRow first_of_all(const TokenRow& mine, Ranks& ranks) {
  return nlohmann::json::parse(ranks.broadcast(nlohmann::json(mine).dump()));
}

}  // namespace

std::string agree_on_tokenizer(const std::string& found, Ranks& ranks) {
  const int64_t has = found.empty() ? 0 : 1;
  if (ranks.largest(has, "tokenizer") == has) return found;
  throw Error(ExitCode::kUsage,
              fmt::format("host {} lacks the tokenizer that others have", host_name()),
              "tokenizer.json", "the same folder on every host; or --tokenizer DIR");
}

TokenRow known(const TokenRow& tokens, int64_t vocab) {
  for (const int64_t token : tokens) {
    if (token >= vocab)
      throw Error(
          ExitCode::kUsage,
          fmt::format("the tokenizer makes token {} of the prompt, and the model's "
                      "vocabulary is {}",
                      token, vocab),
          "tokenizer.json", "the one that the model was made with");
  }
  return tokens;
}

TokenRow tokens_before(const std::string& text, Tokenizer* tokenizer, bool is_text,
                       int64_t vocab) {
  return tokenizer ? known(tokenizer->encode_open(text), vocab)
                   : parse_prompt(text, is_text, vocab);
}

Tokenizer::Question question_of(const nlohmann::ordered_json& asked, const Asking& with) {
  const int64_t vocab = with.options.vocab;
  if (asked.is_string())
    return {with.tokenizer ? known(with.tokenizer->encode(asked), vocab)
                           : parse_prompt(asked, with.is_text, vocab),
            with.ends};
  if (!with.tokenizer)
    throw Error(ExitCode::kUsage, "there is no tokenizer, and so no chat template", "",
                "--tokenizer DIR");
  auto [tokens, ends] = with.tokenizer->ask(asked, with.options);
  ends.insert(ends.end(), with.ends_of_files.begin(), with.ends_of_files.end());
  return {known(tokens, vocab), std::move(ends)};
}

// Where there is a tokenizer it may have been meant as a text.
static void refuse_large_numbers(const std::string& prompt, int64_t vocab,
                                 const std::string& flag) try {
  parse_prompt(prompt, /*is_text=*/false, vocab);
} catch (const Error&) {
  throw Error(ExitCode::kUsage,
              fmt::format("a prompt of numbers alone is taken for tokens, of which there "
                          "are {}",
                          vocab),
              flag, "generate --prompts FILE, where digits are a text");
}

std::string agree_on_prompt(const std::string& prompt, Tokenizer* tokenizer,
                            int64_t vocab, Ranks& ranks, const std::string& flag) {
  std::string numbers = prompt;
  if (tokenizer && is_of_numbers(prompt)) refuse_large_numbers(prompt, vocab, flag);
  if (tokenizer && !is_of_numbers(prompt)) {
    const TokenRow tokens = known(tokenizer->encode(prompt), vocab);
    if (tokens.empty())
      throw Error(ExitCode::kUsage, "the tokenizer makes no tokens of the prompt", flag,
                  "another text");
    numbers = fmt::format("{}", fmt::join(tokens, " "));
  }
  return ranks.broadcast(numbers);
}

Tokenizer::Question agree_on_question(const std::string& words, const TextOptions& text,
                                      Tokenizer* tokenizer, Ranks& ranks) {
  nlohmann::json question;
  if (tokenizer) {
    const Tokenizer::Question asked = tokenizer->ask(words, text);
    question = {known(asked.tokens, text.vocab), asked.ends};
  }
  question = nlohmann::json::parse(ranks.broadcast(question.dump()));
  return {question.at(0), question.at(1)};
}

TokenRow agree_on_ends(const TokenRow& of_files, bool is_text, Tokenizer* tokenizer,
                       const std::string& separator, Ranks& ranks) {
  TokenRow ends = of_files;
  if (ends.empty() && is_text) ends = {data::TokenFile::kEndOfText};
  if (ends.empty() && tokenizer) ends = tokenizer->separator(separator);
  return first_of_all(ends, ranks);
}

TextManner made_together(TextManner manner, Ranks& ranks) {
  if (ranks.size() == 1) return manner;
  manner.sees_stop = [&](bool saw) {
    return ranks.largest(ranks.rank() == 0 && saw, "stop text") > 0;
  };
  manner.agree = [&](const TokenRow& mine) { return first_of_all(mine, ranks); };
  return manner;
}

NextText speech_of(Tokenizer* tokenizer, int64_t text) {
  if (!tokenizer) return nullptr;
  if (text == 0) tokenizer->restart();
  return std::bind_front(&Tokenizer::next, tokenizer, text);
}

std::string marked_text(const data::MarkedTokens& sample, Tokenizer& tokenizer) {
  std::string text;
  for (size_t begin = 0, end = 0; begin < sample.tokens.size(); begin = end) {
    const bool is_trained = sample.trained[begin];
    while (end < sample.tokens.size() && sample.trained[end] == is_trained) ++end;
    const std::string part = printable(
        tokenizer.decode({sample.tokens.begin() + static_cast<ptrdiff_t>(begin),
                          sample.tokens.begin() + static_cast<ptrdiff_t>(end)}));
    const std::string coloured = painted(part, Colour::kGreen, stdout);
    text += !is_trained ? part : coloured == part ? "⟦" + part + "⟧" : coloured;
  }
  return text;
}

}  // namespace zero::launcher
