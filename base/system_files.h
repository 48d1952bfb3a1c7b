#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero {

// What the kernel tells in small files of /proc and /sys.

// The first number of a file; none when the file is absent or says "max".
std::optional<int64_t> read_number(const std::string& path);

// The number after `key` in a file of lines "key number ...".
std::optional<int64_t> read_field(const std::string& path, const std::string& key);

// The first line of a file; empty when there is none.
std::string read_line(const std::string& path);

// Where a control group keeps its numbers.
struct ControlGroup {
  std::string folder;
  int version = 2;  // or 1: files have other names
};

// The groups that limit this process in the matters of `controller` ("memory", "cpu"),
// each before the one above it. Folders may be missing: a container does not see those of
// its outer groups. `root` is where /proc and /sys are looked for.
std::vector<ControlGroup> control_groups(const std::string& controller,
                                         const std::string& root = "");

}  // namespace zero
