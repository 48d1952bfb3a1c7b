#pragma once
#include <string>
#include <vector>

#include "zero/reports.h"

namespace zero::launcher {

// Write how parameters and buffers started, as JSON. Throws Error(kEnvironment) where the
// file cannot be written.
void write_init_report(const std::string& path, const std::vector<InitEntry>& entries);

}  // namespace zero::launcher
