#pragma once
#include <string>

#include "launcher/model.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

class Runner;

// The prompt `--sample` and what the model makes of it, as people write tokens;
// collective, the same on every rank. Throws Error(kUsage) for a prompt that is none.
std::string sample_text(Runner& runner, const Settings& settings, const ModelShape& shape,
                        bool is_text);

}  // namespace zero::launcher
