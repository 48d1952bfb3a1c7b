#include "launcher/inference/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "launcher/data/text_kind.h"
#include "launcher/run/console.h"
#include "launcher/settings/shallow_json.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::ordered_json;

JsonLine json_line(int64_t number, const std::string& line) {
  JsonLine read{number, parse_shallow<ordered_json>(line)};
  if (read.object.is_discarded())
    read.wrong = ordered_json::accept(line) ? "the line is nested too deeply"
                                            : "the line is no JSON";
  else if (!read.object.is_object())
    read.wrong = "the line holds no object";
  return read;
}

PromptLine prompt_of(const JsonLine& line) {
  const auto wrong = [&](const std::string& what) {
    return PromptLine{line.line, {}, what};
  };
  if (!line.wrong.empty()) return wrong(line.wrong);
  ordered_json asked = line.object;
  if (asked.contains("prompt") && !asked["prompt"].is_null()) {
    const ordered_json prompt = asked["prompt"];
    if (asked.contains("messages") && !asked["messages"].is_null())
      return wrong("the line has both \"prompt\" and \"messages\"");
    if (prompt.is_string()) return {line.line, prompt};
    asked["messages"] = prompt;
    asked.erase("prompt");
  }
  if (!asked.contains("messages"))
    return wrong("the line has neither \"prompt\" nor \"messages\"");
  if (!asked["messages"].is_array() || asked["messages"].empty())
    return wrong("there are no messages");
  return {line.line, asked};
}

constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

// Lines that have something, by their numbers.
std::vector<std::pair<int64_t, std::string>> read_lines(const std::string& path,
                                                        const std::string& cure) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::kUsage, what, path, cure);
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("this is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(std::string("it cannot be read: ") + std::strerror(errno));
  std::vector<std::pair<int64_t, std::string>> lines;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, 3);
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") != std::string::npos)
      lines.emplace_back(number, line);
  }
  if (file.bad()) refuse(std::string("it cannot be read: ") + std::strerror(errno));
  if (lines.empty()) refuse("the file is empty");
  return lines;
}

constexpr char kNoUtf8[] = "the line is not valid UTF-8";

}  // namespace

std::vector<JsonLine> read_json_lines(const std::string& path, const std::string& flag) {
  std::vector<JsonLine> read;
  for (const auto& [number, line] : read_lines(path, flag + ": a file of JSONL"))
    read.push_back(is_utf8(line) ? json_line(number, line)
                                 : JsonLine{number, {}, kNoUtf8});
  return read;
}

void tell_wrong(const std::string& path, const std::vector<WrongLine>& wrong) {
  constexpr size_t kTold = 20;
  for (size_t i = 0; i < std::min(wrong.size(), kTold); ++i)
    warn(fmt::format("{}, line {}: {}", path, wrong[i].line, wrong[i].what));
}

void refuse_all_lines(const std::string& path, const WrongLine& first,
                      const std::string& cure) {
  throw Error(ExitCode::kData, "no line can be used; the first: " + first.what,
              fmt::format("{}, line {}", path, first.line), cure);
}

void tell_unused(const std::string& path, size_t num_wrong) {
  warn(fmt::format("{} lines of {} could not be used; all others were", num_wrong, path));
}

std::vector<PromptLine> read_prompts(const std::string& path) {
  std::vector<PromptLine> prompts;
  if (data::names_json_lines(path)) {
    for (const JsonLine& line : read_json_lines(path, "--prompts FILE"))
      prompts.push_back(prompt_of(line));
    return prompts;
  }
  for (const auto& [number, line] :
       read_lines(path,
                  "--prompts FILE: a prompt on each line, or JSONL with \"prompt\" "
                  "or \"messages\""))
    prompts.push_back(is_utf8(line) ? PromptLine{number, line}
                                    : PromptLine{number, {}, kNoUtf8});
  return prompts;
}

}  // namespace zero::launcher
