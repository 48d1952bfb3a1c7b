#pragma once
#include <string>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

// Does this setting change what a verb does? Flags of others are refused; a file and the
// environment may hold a whole run's.
bool counts_for(const std::string& verb, const Setting& setting);

}  // namespace zero::launcher
