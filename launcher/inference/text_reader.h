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
class Ranks;
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

// How long tokens took to be read: of prompts, and of what followed.
class ReadingTimes {
 public:
  void add(bool are_of_prompts, int64_t tokens, double seconds);
  // Of ranks that read beside each other: the tokens of all, in the seconds of one.
  void add_up(Ranks& ranks);
  // "prompt: 8 tokens, 92.1 a second; 36 more, 7.6 a second; 1.2 GiB of memory"
  std::string describe(int64_t memory_bytes) const;

 private:
  struct Share {
    int64_t tokens = 0;
    double seconds = 0;
  };
  Share prompts_, others_;
};

// Another reader, and how long it took.
class TimedReader : public TextReader {
 public:
  TimedReader(std::unique_ptr<TextReader> reader, ReadingTimes& times)
      : reader_(std::move(reader)), times_(times) {}
  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override;
  void read_nothing() override { reader_->read_nothing(); }

 private:
  const std::unique_ptr<TextReader> reader_;
  ReadingTimes& times_;
  bool has_read_ = false;
};

// Texts of one row, one after the other, such as the turns of a conversation: of one that
// begins with all that was read before it, only the rest is read.
class ContinuedReader : public TextReader {
 public:
  using Make = std::function<std::unique_ptr<TextReader>()>;
  explicit ContinuedReader(Make make) : make_(std::move(make)) {}

  // What is read next is a whole text.
  void begin_text() { begins_ = true; }
  std::vector<std::vector<float>> read(const std::vector<TokenRow>& more) override;
  void read_nothing() override { make_()->read_nothing(); }

 private:
  TokenRow rest_of(const TokenRow& text);

  const Make make_;
  std::unique_ptr<TextReader> reader_;
  TokenRow read_;
  bool begins_ = true;
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
