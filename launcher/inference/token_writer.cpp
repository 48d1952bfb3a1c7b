#include "launcher/inference/token_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/names.h"
#include "launcher/data/token_file.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

std::vector<int64_t> parse_numbers(const std::string& prompt) {
  std::vector<int64_t> tokens;
  std::istringstream words(prompt);
  for (std::string word; words >> word;)
    tokens.push_back(parse_integer(word).value_or(-1));
  return tokens;
}

// How long the end of a text is that may be the beginning of another.
size_t begun(const std::string& text, const std::string& stop) {
  for (size_t length = std::min(text.size(), stop.size()); length > 0; --length)
    if (text.ends_with(stop.substr(0, length))) return length;
  return 0;
}

}  // namespace

std::vector<int64_t> parse_prompt(const std::string& prompt, bool is_text, int64_t vocab,
                                  const std::string& flag) {
  const std::vector<unsigned char> bytes(prompt.begin(), prompt.end());
  const std::vector<int64_t> tokens =
      is_text ? std::vector<int64_t>(bytes.begin(), bytes.end()) : parse_numbers(prompt);
  const bool fits = std::ranges::all_of(
      tokens, [&](int64_t token) { return token >= 0 && token < vocab; });
  if (tokens.empty() || !fits) {
    throw Error(
        ExitCode::kUsage,
        is_text
            ? fmt::format("the prompt is \"{}\", which this model has no tokens for",
                          prompt)
            : fmt::format("the prompt is \"{}\", and this model reads numbers of tokens",
                          prompt),
        flag,
        is_text ? "a text"
                : fmt::format("numbers below {} with blanks between them, such as "
                              "\"5 17 3\"",
                              vocab));
  }
  return tokens;
}

bool is_of_numbers(const std::string& prompt) {
  const std::vector<int64_t> tokens = parse_numbers(prompt);
  return !tokens.empty() && std::ranges::all_of(tokens, [](int64_t t) { return t >= 0; });
}

std::string TokenWriter::add(int64_t token) {
  if (next_) return next_(token);
  if (!is_text_)
    return fmt::format("{}{}", std::exchange(has_any_, true) ? " " : "", token);
  if (token >= data::TokenFile::kEndOfText) return finish();
  waiting_ += static_cast<char>(token);
  return whole_characters();
}

std::string TokenWriter::finish() {
  return next_ ? next_(std::nullopt) : std::exchange(waiting_, "");
}

std::string TokenWriter::whole_characters() {
  std::string shown;
  while (!waiting_.empty()) {
    const Character next = first_character(waiting_);
    if (next.is_cut) break;
    const size_t bytes = std::max<size_t>(next.bytes, 1);
    shown += waiting_.substr(0, bytes);
    waiting_.erase(0, bytes);
  }
  return shown;
}

std::string StoppedText::add(const std::string& piece) {
  if (has_stopped_) return "";
  waiting_ += piece;
  size_t end = waiting_.npos, waits = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, waiting_.find(stop));
    waits = std::max(waits, begun(waiting_, stop));
  }
  has_stopped_ = end != waiting_.npos;
  if (!has_stopped_) end = waiting_.size() - waits;
  const std::string shown = waiting_.substr(0, end);
  waiting_ = has_stopped_ ? "" : waiting_.substr(end);
  return shown;
}

std::string StoppedText::finish() {
  return has_stopped_ ? "" : std::exchange(waiting_, "");
}

}  // namespace zero::launcher
