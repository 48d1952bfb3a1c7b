#pragma once
#include <string>
#include <variant>
#include <vector>

#include "launcher/settings/command_line.h"
#include "launcher/settings/verb_table.h"

namespace zero::launcher {

// A flag that is no setting: of one value, of a list, or a switch. Verb::takes tells
// whose it is.
struct PlainFlag {
  using Words = std::vector<std::string>;
  std::string name;
  std::variant<std::string CommandLine::*, Words CommandLine::*, bool CommandLine::*>
      member;
  std::string allowed = "", advice = "";  // of its value; for verbs that do not take it
};

// Null: there is none.
const PlainFlag* find_flag(const std::string& name);

// What is wrong with flags that are no settings: those of other verbs that are given, and
// folders that are missing where a verb needs them.
Problems check_flags(const CommandLine& line, const std::string& verb);

// All flags that a verb takes, those of settings included.
std::vector<std::string> flags_of_verb(const Verb& verb);

}  // namespace zero::launcher
