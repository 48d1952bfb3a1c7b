#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Tokens as people write and read them.
namespace zero::launcher {

// How people write tokens: as text where bytes are tokens, or as numbers with blanks
// between them. Throws Error(kUsage) for a prompt without tokens or with some that the
// vocabulary lacks, which names the flag.
std::vector<int64_t> parse_prompt(const std::string& prompt, bool is_text, int64_t vocab,
                                  const std::string& flag = "--prompt");

// Is a prompt one of numbers, and so of tokens?
bool is_of_numbers(const std::string& prompt);

// What a tokenizer makes of one token more, or of the end of a text.
using NextText = std::function<std::string(std::optional<int64_t> token)>;

// Write tokens so, or as a tokenizer does, piece by piece, as they come: characters of
// several bytes come whole. An end of text is nothing in text of bytes. Bytes that are no
// character stay.
class TokenWriter {
 public:
  explicit TokenWriter(bool is_text, NextText next = {})
      : is_text_(is_text), next_(std::move(next)) {}

  std::string add(int64_t token);  // what can be shown with it
  std::string finish();            // what waited for more

 private:
  std::string whole_characters();

  const bool is_text_;
  const NextText next_;
  bool has_any_ = false;
  std::string waiting_;  // the beginning of a character, perhaps
};

// A text that comes in pieces, up to the first of some texts that end it, which are not
// shown. What may be the beginning of one waits.
class StoppedText {
 public:
  explicit StoppedText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::string add(const std::string& piece);  // what can be shown with it
  std::string finish();                       // what waited for more
  bool has_stopped() const { return has_stopped_; }

 private:
  const std::vector<std::string> stops_;
  std::string waiting_;
  bool has_stopped_ = false;
};

}  // namespace zero::launcher
