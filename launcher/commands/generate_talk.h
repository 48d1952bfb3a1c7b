#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "launcher/commands/use_checkpoint.h"
#include "zero/errors.h"

namespace zero::launcher {

// generate --interactive: answers to what a person types, a conversation where the model
// has a chat template, else texts that continue each line. `ends`: tokens that end texts,
// as the model's files name them; num_tokens: of an answer. Collective.
//
// Sets LoadedModel::texts, before the model is loaded. Returns what talks then.
std::function<ExitCode()> prepare_talk(LoadedModel& loaded,
                                       const std::vector<int64_t>& ends,
                                       Ranks& ranks);

}  // namespace zero::launcher
