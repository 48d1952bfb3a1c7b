#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

// Another reader, and how long it took.
class TimedReader : public TextReader {
 public:
  explicit TimedReader(std::unique_ptr<TextReader> reader) : reader_(std::move(reader)) {}
  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override;
  // "prompt: 8 tokens, 92.1 a second; 36 more, 7.6 a second"
  std::string describe() const;

 private:
  struct Share {
    int64_t tokens = 0;
    double seconds = 0;
    double speed() const {
      return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
    }
  };

  const std::unique_ptr<TextReader> reader_;
  Share prompt_, others_;
  bool has_prompt_ = false;
};

// Of a LanguageModel, without gradients and dropout. A ReadingModel reads each token
// once, long texts in parts; any other one the whole text every time.
// Both must outlive it.
std::unique_ptr<TextReader> make_text_reader(Model& model, Engine& engine, int64_t rows);

}  // namespace zero::launcher
