#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace zero {
class Engine;
class Model;
struct TextsAtOnce;
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
  // Takes part in a pass of other ranks.
  virtual void read_nothing() = 0;
};

// Called before each pass.
using BeginPass = std::function<void()>;

// Another reader, and how long it took.
class TimedReader : public TextReader {
 public:
  explicit TimedReader(std::unique_ptr<TextReader> reader) : reader_(std::move(reader)) {}
  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override;
  void read_nothing() override { reader_->read_nothing(); }
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
std::unique_ptr<TextReader> make_text_reader(
    Model& model, Engine& engine, const TextsAtOnce& texts,
    const BeginPass& begin_pass = [] {});

// How many tokens of all rows together it reads at once.
constexpr int64_t kTokensReadAtOnce = 512;

}  // namespace zero::launcher
