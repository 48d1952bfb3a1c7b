#include "launcher/inference/sample.h"

#include "launcher/inference/generate.h"
#include "launcher/process/runner.h"

namespace zero::launcher {

std::string sample_text(Runner& runner, const Settings& settings, const ModelShape& shape,
                        bool is_text) {
  const std::vector<int64_t> prompt = parse_prompt(settings.sample, is_text, shape.vocab);
  const GenerateOptions options{settings.sample_tokens, settings.sample_temperature,
                                static_cast<uint64_t>(settings.seed), shape.seq_len};
  const auto next_logits = [&](std::span<const int64_t> tokens) {
    return runner.next_logits(tokens);
  };
  const std::vector<int64_t> tokens = generate(prompt, options, next_logits);
  return show_tokens(prompt, is_text) + (is_text ? "" : " ") +
         show_tokens(tokens, is_text);
}

}  // namespace zero::launcher
