#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace zero::data {

// Text in which the text to be learned is wrapped or encoded.
struct TextKind {
  std::string name;  // "JSONL"
  std::string cure;  // a command that writes what is meant, with FILE for the file
};

// What the first bytes of a file of text look like; nothing: what people write and read,
// prose, source code, Markdown. They may end in the middle of a line or a character.
//
//   HTML       begins as such a page does
//   JSONL      the first lines, two at least, are objects
//   CSV, TSV   so are records: five at least, most with as many fields as the first. A
//              comma or semicolon parts fields where no blank or line end follows it
//   Latin-1    is not UTF-8
std::optional<TextKind> kind_of_text(std::string_view head);

// Is it JSONL by its name, in letters of either case: .jsonl, .ndjson or .json?
bool names_json_lines(std::string_view path);

}  // namespace zero::data
