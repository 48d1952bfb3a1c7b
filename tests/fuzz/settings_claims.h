#pragma once
#include <string>
#include <vector>

#include "launcher/settings/command_line.h"

namespace zero::fuzz {

// Read settings as `train` does: either one usage error that says what is wrong, or
// settings that a checkpoint and a configuration file keep as they are.
void claim_settings(const launcher::CommandLine& line,
                    const std::vector<std::string>& environment);

// The same for a configuration file of this text.
void claim_config(const std::string& text);

}  // namespace zero::fuzz
