#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace zero::launcher {

// Lines for people. A reader that went away (a closed pipe, a full disk behind a
// redirect) never stops the run.

// Before the first file is opened: one that took the place of a closed stdout would get
// its lines.
void guard_streams();
// At once. While nobody takes it, as of a full pipe or a terminal that was stopped, it is
// waited; but what is not taken after a signal has asked to stop is lost. False: it
// cannot be written, though a reader is there.
bool write_out(std::FILE* file, std::string_view text);
void print_line(const std::string& line);  // stdout
// Throw Error(kCheckpoint), "... cannot be written", where standard output has not taken
// all of this process so far, though its reader is there.
void require_output(const std::string& what);
// A result, as it is. Throws as require_output().
void print_text(const std::string& text, const std::string& what = "the text");
void warn(const std::string& line);  // stderr, as printable() makes it

// What goes on, which --quiet leaves out, and what --verbose adds to it. Lines that were
// asked for, such as a verb's result, are always printed. Both are made printable().
enum class Loudness { kQuiet, kUsual, kVerbose };
void set_loudness(Loudness loudness);
void tell(const std::string& line);
void tell_more(const std::string& line);
void tell_aside(const std::string& line);    // as tell(), on stderr: stdout is a result
void tell_painted(const std::string& line);  // as tell(), of printable parts

// How many columns a line of stdout has, for what is made to fit: those of its terminal,
// or of the terminal of the process that started this rank. A file and a pipe have no
// end: kNoEnd.
constexpr size_t kNoEnd = -1;
size_t width_of_stdout();

// Text in bold and a colour where the stream is a terminal and NO_COLOR is not set.
enum class Colour { kRed = 31, kGreen = 32, kYellow = 33 };
std::string painted(const std::string& text, Colour colour, std::FILE* stream);

// The line at a terminal's end that tells what goes on, on stderr; others come above it.
// Empty: none. As wide as the terminal.
void set_status(const std::string& line);

// Bytes of unknown origin made safe for a terminal: control characters other than line
// ends and tabs, and bytes that are not UTF-8, become \xNN.
std::string printable(const std::string& bytes);

}  // namespace zero::launcher
