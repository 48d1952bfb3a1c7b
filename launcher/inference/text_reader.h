#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace zero {
class Engine;
class Model;
}  // namespace zero

namespace zero::launcher {

using TokenRow = std::vector<int64_t>;

// Reads texts that are made token by token: rows of tokens, which it remembers.
class TextReader {
 public:
  virtual ~TextReader() = default;
  // What comes next of each row, nothing for some -> logits (vocab) of the token that
  // follows; empty for those that get nothing. Collective.
  virtual std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) = 0;
};

// Of a LanguageModel, without gradients and dropout. A ReadingModel reads each token
// once, a long text in parts of so many tokens; any other one the whole text every time.
// Both must outlive it.
std::unique_ptr<TextReader> make_text_reader(Model& model, Engine& engine, int64_t rows,
                                             int64_t tokens_at_once = 512);

}  // namespace zero::launcher
