#include "launcher/inference/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "base/names.h"
#include "launcher/data/token_file.h"
#include "launcher/run/console.h"
#include "launcher/settings/values.h"
#include "offload/random.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

// In [0, 1), a function of the seed and the token's number alone.
double uniform_number(uint64_t seed, int64_t index) {
  const auto bits =
      philox(hash_key(seed, "generated text"), static_cast<uint64_t>(index), 0);
  return std::ldexp(
      static_cast<double>(bits[0]) + std::ldexp(static_cast<double>(bits[1] >> 11), -21),
      -32);
}

std::vector<int64_t> parse_numbers(const std::string& prompt) {
  std::vector<int64_t> tokens;
  std::istringstream words(prompt);
  for (std::string word; words >> word;)
    tokens.push_back(parse_integer(word).value_or(-1));
  return tokens;
}

}  // namespace

int64_t choose_token(std::span<const float> logits, double temperature, double uniform) {
  const auto likeliest = std::ranges::max_element(logits);
  if (temperature == 0 || !std::isfinite(*likeliest)) return likeliest - logits.begin();
  std::vector<double> cumulative;
  double sum = 0;
  for (float logit : logits)
    cumulative.push_back(sum += std::exp((logit - *likeliest) / temperature));
  const auto chosen = std::ranges::upper_bound(cumulative, uniform * sum);
  return std::min<int64_t>(chosen - cumulative.begin(), std::ssize(logits) - 1);
}

std::optional<std::vector<int64_t>> generate(const std::vector<int64_t>& prompt,
                                             const GenerateOptions& options,
                                             const NextLogits& next_logits,
                                             const IsStopped& is_stopped,
                                             const OnToken& on_token) {
  std::vector<int64_t> tokens = prompt;
  for (int64_t i = 0; i < options.num_tokens; ++i) {
    if (is_stopped()) return std::nullopt;
    const int64_t length = std::min(std::ssize(tokens), options.context);
    const std::vector<float> logits = next_logits(std::span(tokens).last(length));
    tokens.push_back(
        choose_token(logits, options.temperature, uniform_number(options.seed, i)));
    if (std::ranges::count(options.ends, tokens.back()) > 0) break;
    if (on_token) on_token(tokens.back());
  }
  return std::vector(tokens.begin() + std::ssize(prompt), tokens.end());
}

std::vector<int64_t> parse_prompt(const std::string& prompt, bool is_text,
                                  int64_t vocab) {
  const std::vector<unsigned char> bytes(prompt.begin(), prompt.end());
  const std::vector<int64_t> tokens =
      is_text ? std::vector<int64_t>(bytes.begin(), bytes.end()) : parse_numbers(prompt);
  const bool fits = std::ranges::all_of(
      tokens, [&](int64_t token) { return token >= 0 && token < vocab; });
  if (tokens.empty() || !fits) {
    throw Error(
        ExitCode::kUsage,
        is_text
            ? fmt::format("sample is \"{}\", which this model has no tokens for", prompt)
            : fmt::format("sample is \"{}\", and this model reads numbers of tokens",
                          prompt),
        "--sample",
        is_text ? "a text"
                : fmt::format("numbers below {} with blanks between them, such as "
                              "--sample \"5 17 3\"",
                              vocab));
  }
  return tokens;
}

bool is_of_numbers(const std::string& prompt) {
  const std::vector<int64_t> tokens = parse_numbers(prompt);
  return !tokens.empty() && std::ranges::all_of(tokens, [](int64_t t) { return t >= 0; });
}

std::string TokenWriter::add(int64_t token) {
  if (next_) return printable(next_(token));
  if (!is_text_)
    return fmt::format("{}{}", std::exchange(has_any_, true) ? " " : "", token);
  if (has_ended_) return "";
  if (token >= data::TokenFile::kEndOfText) {
    has_ended_ = true;
    return finish();
  }
  waiting_ += static_cast<char>(token);
  return whole_characters();
}

std::string TokenWriter::finish() { return printable(std::exchange(waiting_, "")); }

std::string TokenWriter::whole_characters() {
  std::string shown;
  while (!waiting_.empty()) {
    const Character next = first_character(waiting_);
    if (next.is_cut) break;
    shown += printable(waiting_.substr(0, std::max<size_t>(next.bytes, 1)));
    waiting_.erase(0, std::max<size_t>(next.bytes, 1));
  }
  return shown;
}

std::optional<GeneratedText> sample_text(const NextLogits& next_logits,
                                         const Settings& settings,
                                         const ModelShape& shape, bool is_text,
                                         const IsStopped& is_stopped, const Show& show,
                                         const NextText& next) {
  TokenWriter writer(is_text, next);
  GeneratedText all;
  const auto add = [&](std::string& to, const std::string& piece) {
    to += piece;
    if (show && !piece.empty()) show(piece);
  };
  const std::vector<int64_t> prompt =
      parse_prompt(settings.sample, is_text, shape.vocab());
  for (const int64_t token : prompt) add(all.prompt, writer.add(token));
  const GenerateOptions options{settings.sample_tokens, settings.sample_temperature,
                                static_cast<uint64_t>(settings.seed), shape.seq_len};
  const auto add_token = [&](int64_t token) { add(all.text, writer.add(token)); };
  if (!generate(prompt, options, next_logits, is_stopped, add_token)) return std::nullopt;
  add(all.text, writer.finish());
  return all;
}

}  // namespace zero::launcher
