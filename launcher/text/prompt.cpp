#include "launcher/text/prompt.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "launcher/text/tokenizer.h"
#include "zero/errors.h"
#include "zero/ranks.h"

namespace zero::launcher {

std::string agree_on_prompt(const std::string& prompt, Tokenizer* tokenizer,
                            int64_t vocab, Ranks& ranks) {
  std::string numbers = prompt;
  if (tokenizer && !is_of_numbers(prompt)) {
    const std::vector<int64_t> tokens = tokenizer->encode(prompt);
    for (const int64_t token : tokens) {
      if (token >= vocab)
        throw Error(
            ExitCode::kUsage,
            fmt::format("the tokenizer makes token {} of the prompt, and the model's "
                        "vocabulary is {}",
                        token, vocab),
            "tokenizer.json", "the one that the model was made with");
    }
    numbers = fmt::format("{}", fmt::join(tokens, " "));
  }
  return ranks.broadcast(numbers);
}

NextText speech_of(Tokenizer* tokenizer) {
  if (!tokenizer) return nullptr;
  tokenizer->restart();
  return std::bind_front(&Tokenizer::next, tokenizer);
}

}  // namespace zero::launcher
