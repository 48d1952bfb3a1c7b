#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero::launcher {

// The environment of this process, as "NAME=value".
std::vector<std::string> process_environment();

// The value of a variable in such a list; nothing: it is not set.
std::optional<std::string> variable(const std::vector<std::string>& environment,
                                    const std::string& name);

// The most bytes of this process that were resident at one time; 0: nobody tells.
int64_t peak_resident_bytes();

}  // namespace zero::launcher
