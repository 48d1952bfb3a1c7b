#pragma once

#include <string>

#include "launcher/model.h"
#include "launcher/settings/setting_table.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {

// Pages are at most kPageWidth wide.

// The page of `zero_launch --help`: every verb in a line.
std::string overview();

// The page of `zero_launch train --help`.
std::string page_of(const Verb& verb);

// Flags, and every setting by group, with default and meaning: the page of a verb that
// has none of its own.
std::string settings_help(const Verb& verb);

// "  --seq-len N              tokens of a sample [256]\n"; a long left side pushes the
// right one to a new line, and a long right one goes on below.
std::string help_line(const std::string& left, const std::string& right);
std::string setting_line(const Setting& setting, const Settings& defaults);

// A script for bash that completes verbs, the flags of each, and the values of those that
// have a few.
std::string bash_completion(const ModelFamilies& models);

}  // namespace zero::launcher
