#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/data/source.h"
#include "launcher/inference/generate.h"
#include "launcher/text/token_cache.h"
#include "launcher/text/tokenizer.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

// The numbers of a prompt's tokens, as text; what is one of numbers, and all without a
// tokenizer, stays as it is. Collective: the first rank alone has a tokenizer. Throws
// Error(kUsage) where it makes none, which names the flag, or some that the vocabulary
// lacks.
std::string agree_on_prompt(const std::string& prompt, Tokenizer* tokenizer,
                            int64_t vocab, Ranks& ranks,
                            const std::string& flag = "--prompt");

// A user's words as the tokenizer's chat template writes them, and the tokens that end an
// answer. Collective: the first rank alone has a tokenizer and words. Throws as
// Tokenizer::ask().
Tokenizer::Question agree_on_question(const std::string& words, const TextOptions& text,
                                      Tokenizer* tokenizer, Ranks& ranks);

// How a model's texts and conversations become tokens.
struct Asking {
  Tokenizer* tokenizer = nullptr;  // null: there is none
  bool is_text = false;            // bytes are tokens
  TextOptions options;             // of conversations; its vocab counts for texts, too
  TokenRow ends = {};              // of a text
  TokenRow ends_of_files = {};     // those that the model's files name, of answers, too
};

// A text, or an object with messages, as tokens; and what ends the text that follows.
// Throws Error(kUsage) as Tokenizer::encode() and ask(), and for messages without a
// tokenizer.
Tokenizer::Question question_of(const nlohmann::ordered_json& asked, const Asking& with);

// Tokens of a prompt. Throws Error(kUsage) for those that the vocabulary lacks.
TokenRow known(const TokenRow& tokens, int64_t vocab);

// Those of a text that goes on, without what a tokenizer puts behind it; without a
// tokenizer as parse_prompt() reads them. Throws as both.
TokenRow tokens_before(const std::string& text, Tokenizer* tokenizer, bool is_text,
                       int64_t vocab);

// The same on all ranks: throws Error(kUsage) on a host that lacks the tokenizer which
// others have. Collective.
std::string agree_on_tokenizer(const std::string& found, Ranks& ranks);

// The tokens that end a text: those of the model's files, else what stands behind the
// texts that it has learnt. Collective: the first rank alone knows.
TokenRow agree_on_ends(const TokenRow& of_files, bool is_text, Tokenizer* tokenizer,
                       const std::string& separator, Ranks& ranks);

// Of ranks that make texts together: each calls it, and all get the first one's tokens.
TextManner made_together(TextManner manner, Ranks& ranks);

// How the tokenizer writes what a model says, from the begin of a text on; of several
// that grow together, each by its number, 0 first. Without one there is no such thing:
// null.
NextText speech_of(Tokenizer* tokenizer, int64_t text = 0);

// A sample's text, with what is trained of it in ⟦brackets⟧, or in a colour on a
// terminal.
std::string marked_text(const data::MarkedTokens& sample, Tokenizer& tokenizer);

}  // namespace zero::launcher
