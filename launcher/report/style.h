#pragma once

namespace zero::launcher {

// How a report looks, in light and dark, on paper and on a phone.
extern const char* const kReportStyle;
// Reads numbers out under the pointer. Without it nothing is missing but that.
extern const char* const kReportScript;

}  // namespace zero::launcher
