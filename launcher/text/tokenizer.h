#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace zero::launcher {

class PythonChild;
struct TextOptions;

// A model's tokenizer, in a process of its own: PyPI's tokenizers, which transformers
// uses, in Python (scripts/tokens/child.py).
//
// Whatever it is asked throws as PythonChild::ask(): Error(kEnvironment) where Python has
// no tokenizers, Error(kUsage) for a file that is no tokenizer. One thread at a time.
class Tokenizer {
 public:
  // `path`: a tokenizer.json. `command`: the program with its words, to which questions
  // are put.
  Tokenizer(const std::string& path, const std::vector<std::string>& command);
  ~Tokenizer();

  // With what the tokenizer puts around a text.
  std::vector<int64_t> encode(const std::string& text);
  // The same of a text that goes on: without what is put behind it.
  std::vector<int64_t> encode_open(const std::string& text);
  // Above all ids of its tokens.
  int64_t vocab() const { return vocab_; }
  // Is there a chat template beside it?
  bool has_template();
  // A user's words, or an object with messages, as the chat template writes them, with
  // what makes the model answer; and the tokens that end its answer, as these options
  // train them. Throws Error(kUsage) where there is no template, or it refuses them.
  struct Question {
    std::vector<int64_t> tokens, ends;
  };
  Question ask(const nlohmann::ordered_json& asked, const TextOptions& options);
  // What ends a text: of that word, a token or none, or "" for the model's own end of
  // text. Nothing tells it: none.
  std::vector<int64_t> separator(const std::string& word);
  std::string decode(const std::vector<int64_t>& tokens);
  // What one more token adds to a text, in whole characters; "" where it ends in one. No
  // token: what waits at its end. Of several that grow together, each has a number. They
  // begin with this object, and at restart().
  std::string next(int64_t text, std::optional<int64_t> token);
  void restart();

 private:
  std::vector<int64_t> ids(const char* verb, const std::string& text);

  std::unique_ptr<PythonChild> child_;
  int64_t vocab_;
};

// The same, but null where this machine cannot have one: then a line says what happens
// `otherwise`.
std::unique_ptr<Tokenizer> open_if_possible(const std::string& path,
                                            const std::vector<std::string>& command,
                                            const std::string& otherwise);

// Where the folder keeps its tokenizer.json; "": it has none. Throws Error(kUsage) where
// nobody can tell.
std::string tokenizer_of(const std::string& folder);

// A tokenizer.json or a file beside it; nothing: it is not there. Throws Error(kUsage)
// for one that cannot be read.
std::optional<std::string> read_tokenizer_file(const std::string& path);

}  // namespace zero::launcher
