#pragma once
#include <map>
#include <string>
#include <string_view>

namespace zero {

// Make the named points of the code slow, for tests of overlap and of races.
// Process-wide; replaces what was set before. A point costs one atomic load while nothing
// is set.
void set_delays(std::map<std::string, int> milliseconds);
void delay_point(std::string_view name);

}  // namespace zero
