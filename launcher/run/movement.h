#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "zero/reports.h"

namespace zero::launcher {

// How often it is looked at whether masters move: behind so many steps of this process,
// or its last.
inline constexpr int kStepsToMove = 20;

// "masters fp32, 3 of 5 trainable parameters moved; no gradient but 0: a; steps of 0, or too
// small for fp32: b".
std::string movement_line(const std::vector<ParamMovement>& movements);
// {"trained": 5, "moved": 3, "without_gradient": ["a"], "stuck": ["b"]}
nlohmann::ordered_json movement_record(const std::vector<ParamMovement>& movements);

}  // namespace zero::launcher
