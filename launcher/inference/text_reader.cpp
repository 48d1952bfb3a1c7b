#include "launcher/inference/text_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/seconds.h"
#include "launcher/run/lines.h"
#include "zero/ranks.h"

namespace zero::launcher {

void ReadingTimes::add(bool are_of_prompts, int64_t tokens, double seconds) {
  Share& share = are_of_prompts ? prompts_ : others_;
  share.tokens += tokens;
  share.seconds += seconds;
}

void ReadingTimes::add_up(Ranks& ranks) {
  std::array<int64_t, 2> tokens = {prompts_.tokens, others_.tokens};
  std::array<double, 2> seconds = {prompts_.seconds, others_.seconds};
  ranks.all_reduce(tokens, ReduceOp::kSum, "tokens that were read");
  ranks.all_reduce(seconds, ReduceOp::kSum, "seconds of reading");
  prompts_ = {tokens[0], seconds[0] / ranks.size()};
  others_ = {tokens[1], seconds[1] / ranks.size()};
}

std::string ReadingTimes::describe(int64_t memory_bytes) const {
  const auto speed = [](const Share& share) {
    return share.seconds > 0 ? static_cast<double>(share.tokens) / share.seconds : 0;
  };
  return fmt::format(
      "prompt: {} tokens, {:.1f} a second; {} more, {:.1f} a second; {} of memory",
      prompts_.tokens, speed(prompts_), others_.tokens, speed(others_),
      short_bytes(memory_bytes));
}

// Tokens that were drawn come one by one.
std::vector<std::vector<float>> TimedReader::read(const std::vector<TokenRow>& more) {
  const auto begin = std::chrono::steady_clock::now();
  auto logits = reader_->read(more);
  int64_t tokens = 0, longest = 0;
  for (const TokenRow& row : more) {
    tokens += std::ssize(row);
    longest = std::max(longest, std::ssize(row));
  }
  times_.add(!std::exchange(has_read_, true) || longest > 1, tokens,
             seconds_since(begin));
  return logits;
}

std::vector<std::vector<float>> ContinuedReader::read(const std::vector<TokenRow>& more) {
  const TokenRow rest =
      std::exchange(begins_, false) ? rest_of(more.front()) : more.front();
  auto logits = reader_->read({rest});
  read_.insert(read_.end(), rest.begin(), rest.end());
  return logits;
}

// Logits come of what is read: there is one token of it at least.
TokenRow ContinuedReader::rest_of(const TokenRow& text) {
  const bool goes_on = reader_ && text.size() > read_.size() &&
                       std::equal(read_.begin(), read_.end(), text.begin());
  if (!goes_on) {
    reader_.reset();  // two would need twice the memory
    reader_ = make_();
    read_.clear();
  }
  return {text.begin() + std::ssize(read_), text.end()};
}

}  // namespace zero::launcher
