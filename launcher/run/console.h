#pragma once
#include <string>

namespace zero::launcher {

// Lines for people. A reader that went away (a closed pipe, a full disk behind a
// redirect) never stops the run.

// Before the first file is opened: one that took the place of a closed stdout would get
// its lines.
void guard_streams();
void print_line(const std::string& line);  // stdout, at once
void warn(const std::string& line);        // stderr

// The line at a terminal's end that tells what goes on, on stderr; others come above it.
// Empty: none. As wide as the terminal.
void set_status(const std::string& line);

// Bytes of unknown origin made safe for a terminal: control characters other than line
// ends and tabs, and bytes that are not UTF-8, become \xNN.
std::string printable(const std::string& bytes);

}  // namespace zero::launcher
