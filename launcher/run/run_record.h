#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace zero {
class Engine;
}

namespace zero::launcher {

// What a log tells first: the world, {"size", "hosts", "device", "parameters", "units"},
// and the engine's memory. `hosts` has each rank's.
nlohmann::ordered_json run_record(const Engine& engine,
                                  const std::vector<std::string>& hosts);

}  // namespace zero::launcher
