#pragma once
#include <string>

#include "launcher/commands/use_checkpoint.h"
#include "zero/errors.h"

namespace zero::launcher {

// eval --choices FILE: how often the likeliest of several ends of a prompt is the right
// one. `to`: a new file for the log likelihoods of all, "": none. Lines that cannot be
// used are told, and all others are asked: kData. Collective.
ExitCode evaluate_choices(LoadedModel& loaded, const std::string& to);

}  // namespace zero::launcher
