#pragma once
#include <string>

#include "launcher/settings/setting_table.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {

// What an unknown name could mean, in that spelling (key_of, variable_of):
// "; nearest: seq_len", "; here: lr" or "".
std::string advice_for(const std::string& name, Spelling spelling);

// The same for a flag of a verb, given without its dashes: of what the verb takes, else
// what others call a setting of train.
std::string advice_for_flag(const std::string& name, const Verb& verb);

}  // namespace zero::launcher
