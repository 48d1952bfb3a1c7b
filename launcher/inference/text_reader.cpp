#include "launcher/inference/text_reader.h"

#include <fmt/format.h>

#include <chrono>

namespace zero::launcher {

std::vector<std::vector<float>> TimedReader::read(const std::vector<TokenRow>& more) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  auto logits = reader_->read(more);
  Share& share = std::exchange(has_prompt_, true) ? others_ : prompt_;
  share.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
  for (const TokenRow& row : more) share.tokens += std::ssize(row);
  return logits;
}

std::string TimedReader::describe() const {
  return fmt::format("prompt: {} tokens, {:.1f} a second; {} more, {:.1f} a second",
                     prompt_.tokens, prompt_.speed(), others_.tokens, others_.speed());
}

}  // namespace zero::launcher
