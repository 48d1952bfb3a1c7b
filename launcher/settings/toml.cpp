#include "launcher/settings/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

using Type = RawValue::Type;

// What is wrong at one place of the text; the parser adds the line.
struct SyntaxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

std::string utf8(uint32_t code) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | (code >> shift & 0x3f));
  };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  TomlFile run() {
    for (; skip_blank_lines(); skip_line()) {
      const int line = line_;
      try {
        read_entry();
        expect_end_of_line();
      } catch (const SyntaxError& error) {
        file_.problems.push_back({error.what(), origin(line)});
      }
    }
    return std::move(file_);
  }

 private:
  bool at_end() const { return position_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }

  char next() {
    if (at_end()) throw SyntaxError("the file ends inside a value");
    if (text_[position_] == '\n') ++line_;
    return text_[position_++];
  }

  std::string origin(int line) const { return fmt::format("{} line {}", path_, line); }

  void skip_spaces() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') next();
  }

  void skip_line() {
    while (!at_end() && next() != '\n') {
    }
  }

  // To the next line that says something; false at the end of the file.
  bool skip_blank_lines() {
    for (skip_spaces(); peek() == '\n' || peek() == '#'; skip_spaces()) skip_line();
    return !at_end();
  }

  void expect_end_of_line() {
    skip_spaces();
    if (!at_end() && peek() != '\n' && peek() != '#') {
      throw SyntaxError(fmt::format("'{}' stands behind the value of {}", rest_of_line(),
                                    file_.entries.back().key));
    }
  }

  std::string rest_of_line() const {
    return std::string(
        text_.substr(position_, text_.find_first_of("\r\n", position_) - position_));
  }

  void read_entry() {
    if (peek() == '[') {
      throw SyntaxError(fmt::format(
          "'{}': there are no tables here, every key stands by itself", rest_of_line()));
    }
    const std::string line_text = rest_of_line();
    TomlEntry entry;
    entry.value.origin = origin(line_);
    while (is_key_character(peek())) entry.key += next();
    skip_spaces();
    if (entry.key.empty() || peek() != '=')
      throw SyntaxError(fmt::format("'{}' is not of the form key = value", line_text));
    next();
    skip_spaces();
    try {
      read_value(entry.value);
    } catch (const SyntaxError& error) {
      throw SyntaxError(entry.key + ": " + error.what());
    }
    file_.entries.push_back(std::move(entry));
  }

  void read_value(RawValue& value) {
    value.is_array = peek() == '[';
    if (value.is_array) {
      read_array(value);
    } else {
      read_scalar(value);
    }
  }

  void read_array(RawValue& value) {
    next();
    for (skip_blank_lines(); peek() != ']'; skip_blank_lines()) {
      read_scalar(value);
      skip_blank_lines();
      if (peek() == ',') {
        next();
      } else if (peek() != ']') {
        throw SyntaxError("a comma or ] is missing in the array");
      }
    }
    next();
  }

  // One value behind those that are there.
  void read_scalar(RawValue& value) {
    const bool is_string = peek() == '"' || peek() == '\'';
    const std::string word = is_string ? read_string() : read_bare_word();
    const Type type = is_string ? Type::kString : type_of(word);
    value.type = value.words.empty() || value.type == type ? type : Type::kMixed;
    value.words.push_back(word);
  }

  std::string read_bare_word() {
    std::string word;
    while (!at_end() &&
           std::string_view(" \t\r\n,]#").find(peek()) == std::string_view::npos)
      word += next();
    if (word.empty()) throw SyntaxError("there is no value");
    return word;
  }

  static Type type_of(const std::string& word) {
    if (word == "true" || word == "false") return Type::kBoolean;
    if (std::isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-' ||
        word[0] == '+' || word == "inf" || word == "nan") {
      return Type::kNumber;
    }
    throw SyntaxError(
        fmt::format("{0} is no value; a text stands in quotes: \"{0}\"", word));
  }

  std::string read_string() {
    const char quote = next();
    if (text_.substr(position_).starts_with(std::string(2, quote))) {
      throw SyntaxError(
          "strings over several lines are not read here; write \\n for a new line");
    }
    std::string word;
    while (peek() != quote) {
      if (peek() == '\n') throw SyntaxError("the closing quote is missing");
      const char c = next();
      word += c == '\\' && quote == '"' ? read_escape() : std::string(1, c);
    }
    next();
    return word;
  }

  std::string read_escape() {
    const char c = next();
    constexpr std::string_view names = "btnfr\"\\", values = "\b\t\n\f\r\"\\";
    if (const size_t i = names.find(c); i != names.npos) return {values[i]};
    if (c != 'u' && c != 'U')
      throw SyntaxError(fmt::format("\\{} is no escape; a backslash is written \\\\", c));
    return utf8(read_code_point(c == 'u' ? 4 : 8));
  }

  uint32_t read_code_point(int num_digits) {
    uint32_t code = 0;
    for (int i = 0; i < num_digits; ++i) {
      const char c = next();
      if (!std::isxdigit(static_cast<unsigned char>(c)))
        throw SyntaxError("a \\u needs hexadecimal digits");
      code = code * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (is_surrogate || code > 0x10ffff) throw SyntaxError("a \\u names no character");
    return code;
  }

  const std::string_view text_;
  const std::string& path_;
  size_t position_ = 0;
  int line_ = 1;
  TomlFile file_;
};

}  // namespace

TomlFile parse_toml(std::string_view text, const std::string& path) {
  return Parser(text, path).run();
}

}  // namespace zero::launcher
