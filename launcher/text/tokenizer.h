#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace zero::launcher {

// A model's tokenizer, in a process of its own: PyPI's tokenizers, which transformers
// uses, in Python (scripts/tokens/child.py).
//
// Whatever it is asked throws Error(kEnvironment) where Python has no tokenizers, or
// where the process dies, hangs or answers nonsense, with its last words; Error(kUsage)
// for a file that is no tokenizer; and Error(kInterrupted) when the program is asked to
// stop. One thread at a time.
class Tokenizer {
 public:
  // `path`: a tokenizer.json. `command`: the program with its words, to which questions
  // are put.
  Tokenizer(const std::string& path, const std::vector<std::string>& command);
  ~Tokenizer();

  // With what the tokenizer puts around a text.
  std::vector<int64_t> encode(const std::string& text);
  // What one more token adds to a text, in whole characters; "" where it ends in one.
  std::string next(int64_t token);

 private:
  class Process;
  std::unique_ptr<Process> process_;
};

// Of `ZERO_PYTHON`, else of the Python that this was built with, else python3.
std::vector<std::string> tokenizer_command(const std::vector<std::string>& environment);

// Where the folder keeps its tokenizer.json; "": it has none.
std::string tokenizer_of(const std::string& folder);

}  // namespace zero::launcher
