#pragma once
#include <optional>
#include <string>
#include <vector>

namespace zero::launcher {

// The environment of this process, as "NAME=value".
std::vector<std::string> process_environment();

// The value of a variable in such a list; nothing: it is not set.
std::optional<std::string> variable(const std::vector<std::string>& environment,
                                    const std::string& name);

// Of this host.
std::string host_name();

}  // namespace zero::launcher
