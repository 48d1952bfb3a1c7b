#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace zero {
class Ranks;
namespace data {
class TokenSource;
}
}  // namespace zero

namespace zero::launcher {

// How texts become tokens.
struct TextOptions {
  std::string tokenizer;          // a tokenizer.json
  std::string separator;          // a token, "none", or "": the model's end of text
  std::string text_key = "text";  // of a line of JSONL
  std::string train_on = "assistant";
  std::string end_of_turn;           // a token; "": the first special one
  std::string special = "error";     // tokens that contents spell: or "text"
  std::string date;                  // of templates, YYYY-MM-DD
  std::string cache;                 // the folder for tokens
  int64_t vocab = 0;                 // the model's; 0: not known yet
  std::vector<std::string> command;  // starts the tokenizer (child_command())
};

// Texts as tokens on disk: joined to one row, or examples with what is trained of them.
struct TokenizedText {
  std::vector<std::string> paths;  // of token files, in the order of their tokens
  int64_t num_tokens = 0, num_documents = 0;
  std::string separator;        // a token, or "none"
  std::string separator_shown;  // its number and what told it, too
  // Of examples, as data::ExampleFiles has them.
  bool are_examples = false;
  std::string targets, index, shapes;
  bool is_new = false;  // made just now
};

// What decides how chats are written and trained, as the tokenizer's process takes it.
nlohmann::json manner_of(const TextOptions& options);

// One line for people.
std::string describe(const TokenizedText& text);

// Find the tokens of these texts in the cache, or make them.
//
// The cache has a folder for each set of texts: its name is the hash of their contents,
// of the tokenizer and of the options; of examples also of the chat template. Files that
// are those of last time by path, size, time and inode are not read again. Folders appear
// whole; two processes that want the same tokens make them once, as far as the file
// system has locks.
//
// Throws Error(kData) for what cannot be read as text, with its lines; Error(kUsage) for
// a tokenizer that is none, Error(kEnvironment) where the disk has no room, and as
// PythonChild does.
TokenizedText tokenize(const data::TokenSource& texts, const TextOptions& options);

// The same for all ranks; collective. The first rank of each host makes them.
TokenizedText tokenize(const data::TokenSource& texts, const TextOptions& options,
                       bool is_first_of_host, Ranks& ranks);

}  // namespace zero::launcher
