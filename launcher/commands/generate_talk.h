#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "launcher/commands/use_checkpoint.h"
#include "zero/errors.h"

namespace zero::launcher {

// generate --interactive: answers to what a person types, a conversation where the model
// has a chat template, else texts that continue each line. `ends`: tokens that end texts,
// as the model's files name them. has_limit: the tokens of an answer are given; else a
// conversation's have the whole context. Collective.
//
// Sets LoadedModel::texts, before the model is loaded. Returns what talks then: kData
// where lines of no terminal could not be answered.
std::function<ExitCode()> prepare_talk(LoadedModel& loaded,
                                       const std::vector<int64_t>& ends, bool has_limit,
                                       Ranks& ranks);

}  // namespace zero::launcher
