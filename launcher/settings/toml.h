#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "launcher/settings/problems.h"
#include "launcher/settings/setting_table.h"

namespace zero::launcher {

struct TomlEntry {
  std::string key;
  RawValue value;
};

struct TomlFile {
  std::vector<TomlEntry> entries;  // in the order of the file
  Problems problems;               // each with its line; reading goes on behind them
};

// Read the part of TOML that a flat configuration needs: comments, and `key = value` with
// strings in either quotes, numbers, booleans, and arrays of those over one or more
// lines. Tables, dates and multi-line strings are named as problems. `path` only appears
// in origins: "run.toml line 3".
TomlFile parse_toml(std::string_view text, const std::string& path);

}  // namespace zero::launcher
