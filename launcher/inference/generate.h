#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/inference/sampling.h"
#include "launcher/inference/text_reader.h"
#include "launcher/inference/token_writer.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

struct GenerateOptions {
  int64_t num_tokens = 200;
  Sampling sampling = {};
  uint64_t seed = 0;
  int64_t context = 256;      // tokens that a text may have in all
  std::vector<int64_t> ends;  // behind one of these no more follows
};

// A text to be continued. Which numbers are drawn for it depends on the seed and on both
// numbers.
struct TextBegin {
  TokenRow tokens;  // one at least
  uint32_t prompt = 0, sample = 0;
};

// Why no more follows.
enum class Finish {
  kTokens,   // there are as many as were asked for
  kEnd,      // one of GenerateOptions::ends came
  kStop,     // as who was told of a token said
  kContext,  // the context is full
};
// "tokens", "end", "stop", "length"
std::string to_text(Finish finish);

struct TextEnd {
  TokenRow tokens;  // without the one that ended it
  Finish finish = Finish::kTokens;
};

// Asked before each token; no more are made when it says so. May be a collective call.
using IsStopped = std::function<bool()>;
inline const IsStopped kNeverStopped = [] { return false; };
// Told of each token of a row as it is drawn; true: it is the row's last. May be a
// collective call.
using OnToken = std::function<bool(int64_t row, int64_t token)>;

// The first rank's tokens, which all take: unlike processors may draw others. A
// collective call.
using Agree = std::function<TokenRow(const TokenRow& mine)>;

// What follows each text, a row of the reader each, all at once; nothing when stopped.
// Throws Error(kUsage) for texts that leave no room in the context.
std::optional<std::vector<TextEnd>> generate(const std::vector<TextBegin>& begins,
                                             const GenerateOptions& options,
                                             TextReader& reader,
                                             const IsStopped& is_stopped = kNeverStopped,
                                             const OnToken& on_token = {},
                                             const Agree& agree = {});

// By settings; `ends`: tokens that end a text.
GenerateOptions generate_options(const Settings& settings, const ModelShape& shape,
                                 const TokenRow& ends);

// As people write tokens: one behind the other they are the whole.
struct GeneratedText {
  std::string prompt, text;
  Finish finish = Finish::kTokens;
};
using Show = std::function<void(const std::string& piece)>;

// How texts of a model are made, shown and ended.
struct TextManner {
  bool is_text = false;  // bytes are its tokens
  bool shows_prompt = true;
  TokenRow ends = {};  // tokens that end one
  IsStopped is_stopped = kNeverStopped;
  // Gets the first one piece by piece.
  Show show = {};
  // How a tokenizer writes each of them; null: as TokenWriter does without.
  std::function<NextText(int64_t text)> speech = {};
  // Whether any rank saw a text that ends it; a collective call.
  std::function<bool(bool saw)> sees_stop = [](bool saw) { return saw; };
  Agree agree = {};
};

// A prompt and what a model of that shape makes of it, as often as the reader has rows;
// nothing when stopped.
std::optional<std::vector<GeneratedText>> sample_texts(
    TextReader& reader, const TokenRow& prompt, int64_t count, const Settings& settings,
    const ModelShape& shape, const TextManner& manner, int64_t first_sample = 0);

}  // namespace zero::launcher
