#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/commands/use_checkpoint.h"
#include "zero/errors.h"

namespace zero::launcher {

// generate --prompts FILE: all prompts of a file, in batches that are dealt to the ranks;
// a record of JSON for each text goes to the file `to`, "": standard output. `ends`:
// tokens that end texts, as the model's files name them. Collective.
//
// Reads what there is before the model is loaded, and sets LoadedModel::texts. Returns
// what makes the texts then. Lines that cannot be used are told, and all others are done:
// kData. A signal stops it, and records of what was done are there: kInterrupted.
std::function<ExitCode()> prepare_many(LoadedModel& loaded,
                                       const std::vector<int64_t>& ends,
                                       const std::string& to, Ranks& ranks);

}  // namespace zero::launcher
