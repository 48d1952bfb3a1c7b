#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Files of prompts, one a line.
namespace zero::launcher {

struct PromptLine {
  int64_t line = 0;  // from 1
  // A text; or, of a conversation, the line's object, with `messages`.
  nlohmann::json asked;
  std::string wrong = {};  // what is wrong with it; "": nothing
};

// The lines of a file that have something: of JSONL (.jsonl, .ndjson, .json) objects with
// `prompt`, a text or messages, or with `messages`; of any other file texts. Throws
// Error(kUsage) for a file that cannot be read, or has no prompts.
std::vector<PromptLine> read_prompts(const std::string& path);

}  // namespace zero::launcher
