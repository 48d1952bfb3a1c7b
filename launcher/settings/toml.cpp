#include "launcher/settings/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

// The library asserts what a file may well lack: a name in "[ # comment".
struct BrokenAssertion {};
[[noreturn]] static void tell_broken_assertion() { throw BrokenAssertion(); }
#define TOML_ASSERT(claim) ((claim) ? static_cast<void>(0) : tell_broken_assertion())
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/text.h"

namespace zero::launcher {
namespace {

using Type = RawValue::Type;

std::string_view line_of(std::string_view text, size_t line) {
  for (; line > 1; --line) {
    const size_t end = text.find('\n');
    text = end == text.npos ? "" : text.substr(end + 1);
  }
  return text.substr(0, text.find_first_of("\r\n"));
}

// Of configurations that others read; "" for neither.
std::string other_language(std::string_view text, std::string_view line) {
  const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first != text.npos && text[first] == '{') return "JSON";
  const size_t name_end = line.find_first_of(":=");
  const bool is_pair = name_end != line.npos && name_end > 0 && line[name_end] == ':' &&
                       (name_end + 1 == line.size() || line[name_end + 1] == ' ');
  return is_pair || line.starts_with("---") ? "YAML" : "";
}

std::string syntax_problem(std::string_view text, std::string_view line,
                           const std::string& description) {
  if (text.find('\0') != text.npos)
    return "this is no text; a configuration is TOML, a line for each key: lr = 0.001";
  if (const std::string other = other_language(text, line); !other.empty())
    return fmt::format(
        "this looks like {}; a configuration is TOML, a line for each key: "
        "lr = 0.001, dtype = \"bf16\"",
        other);
  const size_t value = line.find_first_not_of(" \t", line.find('=') + 1);
  const bool is_bare = line.find('=') != line.npos && value != line.npos &&
                       std::isalpha(static_cast<unsigned char>(line[value]));
  constexpr size_t kShown = 80;
  if (description.find("control characters other than TAB") != description.npos &&
      std::ranges::count(line, '"') % 2 == 1)
    return fmt::format("'{}' is not TOML: a quotation mark is missing",
                       zero::printable(line.substr(0, kShown)));
  return fmt::format("'{}' is not TOML: {}{}", zero::printable(line.substr(0, kShown)),
                     description.substr(description.starts_with("Error while ") ? 12 : 0),
                     is_bare ? "; a text stands in quotes" : "");
}

// Its text and type; nothing for what no setting can be: a table, a date.
std::optional<std::pair<std::string, Type>> word_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return {{text->get(), Type::kString}};
  if (const auto* number = node.as_integer())
    return {{fmt::format("{}", number->get()), Type::kNumber}};
  if (const auto* number = node.as_floating_point())
    return {{fmt::format("{}", number->get()), Type::kNumber}};
  if (const auto* flag = node.as_boolean())
    return {{flag->get() ? "true" : "false", Type::kBoolean}};
  return std::nullopt;
}

std::string problem_of(const std::string& key, const toml::node& node) {
  if (const auto* table = node.as_table()) {
    const std::string inside = table->empty() ? "key" : table->begin()->first.data();
    return fmt::format("{} is a table; every key stands by itself here: {} = ...", key,
                       inside);
  }
  return key +
         (node.is_array() ? " holds an array or a table in an array"
                          : " is a date or a time") +
         "; allowed: a string, a number, a boolean, or one array of them";
}

// False: not a value that a setting can have.
bool read(const toml::node& node, RawValue& value) {
  const auto add = [&](const toml::node& element) {
    const auto found = word_of(element);
    if (!found) return false;
    const auto& [word, type] = *found;
    value.type = value.words.empty() || value.type == type ? type : Type::kMixed;
    value.words.push_back(word);
    return true;
  };
  const toml::array* array = node.as_array();
  value.is_array = array;
  return array ? std::ranges::all_of(*array, add) : add(node);
}

// The library goes as deep as a key has parts, and 100,000 would exhaust the stack.
bool has_deep_key(std::string_view text) {
  constexpr int kDeepest = 1000;
  int num_parts = 1;
  for (const char c : text) {
    if (c == '.' && ++num_parts > kDeepest) return true;
    if (std::string_view("=,[]{}#\n").find(c) != std::string_view::npos) num_parts = 1;
  }
  return false;
}

TomlFile read_document(std::string_view text, const std::string& path) {
  const auto origin = [&](const toml::source_region& source) {
    return fmt::format("{} line {}", path, source.begin.line);
  };
  TomlFile file;
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::source_region& source = result.error().source();
    file.problems.push_back({syntax_problem(text, line_of(text, source.begin.line),
                                            std::string(result.error().description())),
                             origin(source)});
    return file;
  }
  const toml::table& table = result;
  std::vector<std::pair<std::string, const toml::node*>> nodes;
  for (const auto& [key, node] : table) nodes.emplace_back(key.str(), &node);
  std::ranges::stable_sort(
      nodes, {}, [](const auto& item) { return item.second->source().begin.line; });
  for (const auto& [key, node] : nodes) {
    TomlEntry entry{key, {}};
    entry.value.origin = origin(node->source());
    if (read(*node, entry.value)) {
      file.entries.push_back(std::move(entry));
    } else {
      file.problems.push_back({problem_of(key, *node), entry.value.origin});
    }
  }
  return file;
}

}  // namespace

TomlFile parse_toml(std::string_view text, const std::string& path) {
  if (has_deep_key(text))
    return {{}, {{"a key has over 1000 parts; allowed: one", path}}};
  try {
    return read_document(text, path);
  } catch (const BrokenAssertion&) {
    return {{}, {{"this is not TOML: a name is missing between brackets", path}}};
  }
}

}  // namespace zero::launcher
