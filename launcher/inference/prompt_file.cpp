#include "launcher/inference/prompt_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

using nlohmann::json;

bool is_json_lines(const std::string& path) {
  constexpr std::array kEndings = {".jsonl", ".ndjson", ".json"};
  return std::ranges::any_of(kEndings,
                             [&](const char* ending) { return path.ends_with(ending); });
}

PromptLine prompt_of(int64_t number, const std::string& line) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto wrong = [&](const char* what) { return PromptLine{number, {}, what}; };
  if (object.is_discarded()) return wrong("the line is no JSON");
  if (!object.is_object()) return wrong("the line holds no object");
  json asked = object;
  if (object.contains("prompt")) {
    const json& prompt = object["prompt"];
    if (prompt.is_string()) return {number, prompt};
    asked["messages"] = prompt;
    asked.erase("prompt");
  }
  if (!asked.contains("messages"))
    return wrong("the line has neither \"prompt\" nor \"messages\"");
  if (!asked["messages"].is_array() || asked["messages"].empty())
    return wrong("there are no messages");
  return {number, asked};
}

}  // namespace

std::vector<PromptLine> read_prompts(const std::string& path) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::kUsage, what, path,
                "--prompts FILE: a prompt on each line, or JSONL with \"prompt\" or "
                "\"messages\"");
  };
  if (std::filesystem::is_directory(path)) refuse("this is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(std::string("it cannot be read: ") + std::strerror(errno));
  const bool has_objects = is_json_lines(path);
  std::vector<PromptLine> prompts;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (!is_utf8(line))
      prompts.push_back({number, {}, "the line is not valid UTF-8"});
    else
      prompts.push_back(has_objects ? prompt_of(number, line) : PromptLine{number, line});
  }
  if (prompts.empty()) refuse("the file has no prompts");
  return prompts;
}

}  // namespace zero::launcher
