#pragma once
#include <cstdint>
#include <string>

#include "launcher/data/source.h"
#include "launcher/inference/generate.h"

namespace zero {
class Ranks;
}

namespace zero::launcher {

class Tokenizer;
struct TextOptions;

// The numbers of a prompt's tokens, as text; what is one of numbers, and all without a
// tokenizer, stays as it is. Collective: the first rank alone has a tokenizer. Throws
// Error(kUsage) for tokens that the vocabulary lacks.
std::string agree_on_prompt(const std::string& prompt, Tokenizer* tokenizer,
                            int64_t vocab, Ranks& ranks);

// What a model answers to a user's words, which `show` gets piece by piece as the
// tokenizer has it. Collective: the first rank alone has a tokenizer and a prompt. The
// answer ends with its turn, or after options.num_tokens. Throws as Tokenizer::ask().
Finish answer(const std::string& words, const TextOptions& text, GenerateOptions options,
              TextReader& reader, Tokenizer* tokenizer, Ranks& ranks, const Show& show);

// The same on all ranks: throws Error(kUsage) on a host that lacks the tokenizer which
// others have. Collective.
std::string agree_on_tokenizer(const std::string& found, Ranks& ranks);

// The tokens that end a text: those of the model's files, else what stands behind the
// texts that it has learnt. Collective: the first rank alone knows.
TokenRow agree_on_ends(const TokenRow& of_files, bool is_text, Tokenizer* tokenizer,
                       const std::string& separator, Ranks& ranks);

// How the tokenizer writes what a model says, from the begin of a text on; of several
// that grow together, each by its number, 0 first. Without one there is no such thing:
// null.
NextText speech_of(Tokenizer* tokenizer, int64_t text = 0);

// A sample's text, with what is trained of it in ⟦brackets⟧, or in a colour on a
// terminal.
std::string marked_text(const data::MarkedTokens& sample, Tokenizer& tokenizer);

}  // namespace zero::launcher
