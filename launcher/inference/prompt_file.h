#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// Files of prompts, one a line.
namespace zero::launcher {

struct PromptLine {
  int64_t line = 0;  // from 1
  // A text; or, of a conversation, the line's object, with `messages`. Keys stay in their
  // order, in which a template may write them.
  nlohmann::ordered_json asked;
  std::string wrong = {};  // what is wrong with it; "": nothing
  std::string cure = {};
  std::string tokens_hash = {};  // of its tokens, and of those that end its texts
};

// A line of JSONL that has something.
struct JsonLine {
  int64_t line = 0;  // from 1
  nlohmann::ordered_json object = {};
  std::string wrong = {};
};

// Throws Error(kUsage) for a file that cannot be read, or is empty; `flag` names it.
std::vector<JsonLine> read_json_lines(const std::string& path, const std::string& flag);

// The lines of a file that have something: of JSONL (.jsonl, .ndjson, .json) objects with
// `prompt`, a text or messages, or with `messages`; of any other file texts. Throws
// Error(kUsage) for a file that cannot be read, or has no prompts.
std::vector<PromptLine> read_prompts(const std::string& path);

// The first twenty such lines, on stderr.
struct WrongLine {
  int64_t line = 0;
  std::string what;
};
void tell_wrong(const std::string& path, const std::vector<WrongLine>& wrong);
// Where there are no others: throws Error(kData) that tells the first.
[[noreturn]] void refuse_all_lines(const std::string& path, const WrongLine& first,
                                   const std::string& cure = "");
// At the end, how many there were.
void tell_unused(const std::string& path, size_t num_wrong);

}  // namespace zero::launcher
