#pragma once
#include <string>

#include "launcher/report/history.h"

namespace zero::launcher {

// A page that shows a run: HTML of one file, which asks nothing of any network.
std::string report_page(const History& history, const std::string& name);

}  // namespace zero::launcher
