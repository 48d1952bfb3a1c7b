#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "launcher/settings/setting_table.h"

namespace zero::launcher {

struct TomlEntry {
  std::string key;
  RawValue value;
};

struct TomlFile {
  std::vector<TomlEntry> entries;  // in the order of the file
  Problems problems;               // each with its line
};

// Read a configuration in TOML: keys with strings, numbers, booleans, or arrays of those.
// Of mistakes in the syntax the first is named, and nothing is read; tables and dates, of
// which a configuration has none, are all named. `path` only appears in origins:
// "run.toml line 3".
TomlFile parse_toml(std::string_view text, const std::string& path);

}  // namespace zero::launcher
