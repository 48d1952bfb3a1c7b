#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/inference/text_reader.h"
#include "launcher/inference/token_writer.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// A text to be continued. Which numbers are drawn for it depends on the seed and on both
// numbers.
struct TextBegin {
  TokenRow tokens;  // one at least
  uint32_t prompt = 0, sample = 0;
  TokenRow ends = {};  // behind one of these no more follows
  // What follows begins as an answer does, not as the rest of a text.
  bool is_answered = false;
};

// Throws Error(kUsage) for a prompt without tokens, or with so many that they fill the
// context.
void require_room(int64_t num_tokens, int64_t context,
                  const std::string& cure = "a shorter one");

// Why no more follows.
enum class Finish {
  kTokens,     // there are as many as were asked for
  kEnd,        // one of TextBegin::ends came
  kStop,       // as who was told of a token said
  kContext,    // the context is full
  kNoNumbers,  // a logit is NaN
  kBroken,     // all were stopped, and this one was not done
};
// "tokens", "end", "stop", "length", "nan", "broken"
std::string to_text(Finish finish);
// For people: an end that nobody asked for; empty: it is none.
std::string early_end(Finish finish, int64_t context);

struct TextEnd {
  TokenRow tokens;  // without the one that ended it
  Finish finish = Finish::kTokens;
  // Of each token, by the logits before penalty, temperature and filters; nothing: nobody
  // asks.
  std::optional<std::vector<double>> log_probs = {};
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

// What follows each text, a row of the reader each, all at once; a text may have
// `context` tokens in all. Throws Error(kUsage) for texts that leave no room there.
std::vector<TextEnd> generate(const std::vector<TextBegin>& begins,
                              const Settings& settings, int64_t context,
                              TextReader& reader,
                              const IsStopped& is_stopped = kNeverStopped,
                              const OnToken& on_token = {}, const Agree& agree = {});

// How long such texts get at most.
TextsAtOnce texts_at_once(const std::vector<TextBegin>& begins, const Settings& settings,
                          const ModelShape& shape);

// As people write tokens: prompt and text, one behind the other, are the whole. Bytes
// that are not printable, or no characters, are as they came.
struct GeneratedText {
  std::string prompt, text;
  TextEnd end = {};
};
using Show = std::function<void(const std::string& piece)>;  // made printable

// How texts of a model are made, shown and ended.
struct TextManner {
  bool is_text = false;  // bytes are its tokens
  bool shows_prompt = true;
  IsStopped is_stopped = kNeverStopped;
  // Gets the first one piece by piece.
  Show show = {};
  // How a tokenizer writes each of them; null: as TokenWriter does without.
  std::function<NextText(int64_t text)> speech = {};
  // Whether any rank saw a text that ends it; a collective call.
  std::function<bool(bool saw)> sees_stop = [](bool saw) { return saw; };
  Agree agree = {};
};

// What a model of that shape makes of texts, as many as the reader has rows.
std::vector<GeneratedText> make_texts(TextReader& reader,
                                      const std::vector<TextBegin>& begins,
                                      const Settings& settings, const ModelShape& shape,
                                      const TextManner& manner);

}  // namespace zero::launcher
