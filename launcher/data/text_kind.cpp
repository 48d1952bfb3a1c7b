#include "launcher/data/text_kind.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/text.h"

namespace zero::data {
namespace {

constexpr size_t kFewestObjects = 2, kFewestRecords = 5, kMostLines = 20;

bool begins_as(std::string_view text, std::string_view lower_case) {
  return text.size() >= lower_case.size() &&
         std::ranges::equal(text.substr(0, lower_case.size()), lower_case, {},
                            [](unsigned char c) { return std::tolower(c); });
}

// Behind <?xml ...?> and a comment.
std::string_view without_prolog(std::string_view text) {
  text = trimmed(text);
  for (const auto& [begin, end] :
       {std::pair<std::string_view, std::string_view>{"<?", "?>"}, {"<!--", "-->"}}) {
    const size_t behind = text.starts_with(begin) ? text.find(end) : text.npos;
    if (behind != text.npos) text = trimmed(text.substr(behind + end.size()));
  }
  return text;
}

bool is_html(std::string_view head) {
  const std::string_view page = without_prolog(head);
  return begins_as(page, "<!doctype html") || begins_as(page, "<html");
}

// Up to kMostLines that end here, without those that are empty.
std::vector<std::string_view> lines_of_text(std::string_view head) {
  std::vector<std::string_view> lines;
  for (size_t end = 0; lines.size() < kMostLines && (end = head.find('\n')) != head.npos;
       head.remove_prefix(end + 1)) {
    const std::string_view line = trimmed(head.substr(0, end));
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

// As far as its ends tell: {"key": ...}
bool is_object(std::string_view line) {
  return line.size() > 2 && line.front() == '{' && line.back() == '}' &&
         trimmed(line.substr(1)).starts_with('"') && line.find("\":") != line.npos;
}

bool is_jsonl(const std::vector<std::string_view>& lines) {
  return lines.size() >= kFewestObjects && std::ranges::all_of(lines, is_object);
}

// How many fields the first records have, of those that end here. A quote at a field's
// begin encloses what it has up to the next one, separators and line ends too.
std::vector<size_t> fields_of_records(std::string_view head, char separator) {
  constexpr std::string_view kNoField = " \t\r\n";
  const auto begins_field = [&](size_t i) {
    return i < head.size() && kNoField.find(head[i]) == kNoField.npos;
  };
  std::vector<size_t> counts;
  size_t fields = 1;
  bool is_quoted = false, is_begin = true, is_empty = true;
  for (size_t i = 0; i < head.size() && counts.size() < kMostLines; ++i) {
    const char c = head[i];
    const bool is_twice = i > 0 && head[i - 1] == '"';  // a quote in quotes
    if (c == '"' && (is_quoted || is_begin || is_twice)) is_quoted = !is_quoted;
    const bool parts = c == separator && !is_quoted && !is_empty && begins_field(i + 1);
    is_begin = parts || (c == '\n' && !is_quoted);
    fields += parts;
    if (c != '\n' && c != '\r') is_empty = false;
    if (c != '\n' || is_quoted) continue;
    if (!is_empty) counts.push_back(fields);
    fields = 1;
    is_empty = true;
  }
  return counts;
}

// A line of prose, or a comment of Lisp: a header has no blank behind its separators.
bool is_no_header(std::string_view line, char separator) {
  return line.starts_with(separator) ||
         (line.find('"') == line.npos &&
          line.find(std::string{separator, ' '}) != line.npos);
}

bool is_table(std::string_view head, char separator) {
  if (is_no_header(head.substr(0, head.find('\n')), separator)) return false;
  const std::vector<size_t> counts = fields_of_records(head, separator);
  if (counts.size() < kFewestRecords || counts[0] < 2) return false;
  const auto num_alike = static_cast<size_t>(std::ranges::count(counts, counts[0]));
  return num_alike * 5 >= counts.size() * 4;
}

bool is_latin1(std::string_view head) {
  Character next;
  while ((next = first_character(head)).bytes > 0) head.remove_prefix(next.bytes);
  return !head.empty() && !next.is_cut;
}

// The name of the text in such lines, as far as it is usual.
std::string key_of(std::string_view line) {
  for (const char* key : {"text", "content", "body", "output"})
    if (line.find('"' + std::string(key) + "\":") != line.npos) return key;
  return "KEY";
}

std::string column_writer(const std::string& delimiter) {
  return "python3 -c \"import csv; [print(r['COLUMN']) for r in csv.DictReader(open("
         "'FILE')" +
         delimiter + ")]\" > TEXT";
}

}  // namespace

std::optional<TextKind> kind_of_text(std::string_view head) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  if (is_html(head)) return TextKind{"HTML", "pandoc -f html -t plain FILE -o TEXT"};
  const std::vector<std::string_view> lines = lines_of_text(head);
  if (is_jsonl(lines))
    return TextKind{"JSONL",
                    "jq -r ." + key_of(lines[0]) + " FILE > TEXT, or --tokenizer DIR"};
  if (is_table(head, ',')) return TextKind{"CSV", column_writer("")};
  if (is_table(head, ';')) return TextKind{"CSV", column_writer(", delimiter=';'")};
  if (is_table(head, '\t')) return TextKind{"TSV", column_writer(", delimiter='\\t'")};
  if (is_latin1(head))
    return TextKind{"Latin-1, as it is not UTF-8",
                    "iconv -f LATIN1 -t UTF-8 FILE > TEXT"};
  return {};
}

bool names_json_lines(std::string_view path) {
  const std::string name = to_lower(path);
  return name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json");
}

}  // namespace zero::data
