#pragma once
#include <memory>
#include <string>
#include <utility>

#include "launcher/commands/use_checkpoint.h"
#include "launcher/inference/generate.h"
#include "launcher/text/prompt.h"
#include "launcher/text/tokenizer.h"

// The ways in which generate makes texts. `ends`: tokens that end them, as the model's
// files name them.
namespace zero::launcher {

// One of these. Made by all ranks together before the model is loaded: reads what there
// is, and sets LoadedModel::texts.
class Speaking {
 public:
  virtual ~Speaking() = default;
  // Collective, with the model.
  virtual ExitCode speak() = 0;

 protected:
  // tokenizer: of this rank; the others may have none.
  Speaking(LoadedModel& loaded, std::unique_ptr<Tokenizer> tokenizer)
      : loaded_(loaded),
        settings_(loaded.settings),
        is_first_(loaded.batch.rank == 0),
        tokenizer_(std::move(tokenizer)) {}

  Asking agree_on_asking(const TokenRow& ends, Ranks& ranks) const;
  // Of texts that are shown without their prompts.
  TextManner plain_manner() const;

  LoadedModel& loaded_;
  const Settings& settings_;
  const bool is_first_;
  const std::unique_ptr<Tokenizer> tokenizer_;
};

// generate --prompts FILE: all prompts of a file, in batches that are dealt to the ranks;
// a record of JSON for each text goes to the file `to`, "": standard output. Collective.
//
// Lines that cannot be used are told, and all others are done: kData. A signal stops it,
// and records of what was done are there: kInterrupted.
std::unique_ptr<Speaking> prepare_many(LoadedModel& loaded, const TokenRow& ends,
                                       const std::string& to, Ranks& ranks);

// A hash of whatever changes such a text, but its model and its prompt. `tokenizer`: a
// file; "": none.
std::string hash_of_settings(const Settings& settings, const ModelShape& shape,
                             const std::string& tokenizer);

// generate --interactive: answers to what a person types, a conversation where the model
// has a chat template, else texts that continue each line. has_limit: the tokens of an
// answer are given; else a conversation's have the whole context. Collective.
//
// kData where lines of no terminal could not be answered.
std::unique_ptr<Speaking> prepare_talk(LoadedModel& loaded, const TokenRow& ends,
                                       bool has_limit, Ranks& ranks);

}  // namespace zero::launcher
