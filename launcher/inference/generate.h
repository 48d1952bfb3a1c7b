#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

struct GenerateOptions {
  int64_t num_tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  uint64_t seed = 0;
  int64_t context = 256;           // longest input of the model
  std::vector<int64_t> ends = {};  // behind one of these no more follows
};

// Logits (vocab) of the token that follows these.
using NextLogits = std::function<std::vector<float>(std::span<const int64_t>)>;

// Asked before each token; no more are made when it says so. May be a collective call.
using IsStopped = std::function<bool()>;
inline const IsStopped kNeverStopped = [] { return false; };
// Told of each token as it is drawn.
using OnToken = std::function<void(int64_t)>;

// The tokens that follow the prompt, which has at least one: as many as asked for, fewer
// where one of GenerateOptions::ends comes, which is the last then and told to nobody; or
// nothing when stopped. next_logits may be a collective call.
std::optional<std::vector<int64_t>> generate(const std::vector<int64_t>& prompt,
                                             const GenerateOptions& options,
                                             const NextLogits& next_logits,
                                             const IsStopped& is_stopped = kNeverStopped,
                                             const OnToken& on_token = {});

// Draw a token from softmax(logits / temperature), with `uniform` in [0, 1).
int64_t choose_token(std::span<const float> logits, double temperature, double uniform);

// How people write tokens: as text where bytes are tokens, or as numbers with blanks
// between them. Throws Error(kUsage) for a prompt without tokens or with some that the
// vocabulary lacks.
std::vector<int64_t> parse_prompt(const std::string& prompt, bool is_text, int64_t vocab);

// Is a prompt one of numbers, and so of tokens?
bool is_of_numbers(const std::string& prompt);

// What a tokenizer makes of one token more.
using NextText = std::function<std::string(int64_t token)>;

// Write tokens so, or as a tokenizer does, piece by piece, as they come: characters of
// several bytes come whole. Text of bytes ends at the first end-of-text token; what is
// not printable is shown as \xNN.
class TokenWriter {
 public:
  explicit TokenWriter(bool is_text, NextText next = {})
      : is_text_(is_text), next_(std::move(next)) {}

  std::string add(int64_t token);  // what can be shown with it
  std::string finish();            // what waited for more

 private:
  std::string whole_characters();

  const bool is_text_;
  const NextText next_;
  bool has_ended_ = false, has_any_ = false;
  std::string waiting_;  // the beginning of a character, perhaps
};

// As people write tokens: one behind the other they are the whole.
struct GeneratedText {
  std::string prompt, text;
};
using Show = std::function<void(const std::string& piece)>;

// The prompt `--sample` and what a model of that shape makes of it, which `show` gets
// piece by piece, as the writer has it; nothing when stopped. Throws Error(kUsage) for a
// prompt that is none.
std::optional<GeneratedText> sample_text(const NextLogits& next_logits,
                                         const Settings& settings,
                                         const ModelShape& shape, bool is_text,
                                         const IsStopped& is_stopped = kNeverStopped,
                                         const Show& show = {},
                                         const NextText& next = {});

}  // namespace zero::launcher
