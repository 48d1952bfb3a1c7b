#pragma once
#include <string>

#include "launcher/settings/setting_table.h"
#include "launcher/settings/settings.h"

namespace zero::launcher {

// Where the settings come from of a run that goes on by its folder alone, in lines for
// people: those that are `given`, those of its `checkpoint`, and what is chosen anew. Of
// the checkpoint's, those that make the run what it is, and all that are not defaults.
std::string origins_text(const RawValues& given, const Settings& earlier,
                         const std::string& checkpoint);

}  // namespace zero::launcher
