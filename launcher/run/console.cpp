#include "launcher/run/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/names.h"

namespace zero::launcher {
namespace {

std::mutex mutex;
std::string status;  // guarded by mutex
Loudness loudness = Loudness::kUsual;
std::atomic<bool> is_line_open = false;  // of stdout: a status would stand in it

void write(std::FILE* file, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
  std::clearerr(file);
}

void show_status(const std::string& line) {
  if (line == status) return;
  winsize size{};
  const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  write(stderr, "\r\033[K" + line.substr(0, is_known ? size.ws_col - 1 : 79));
  status = line;
}

// Whoever holds the lock may wait for a terminal that does not take what it writes:
// nobody waits for the lock.
void clear_status() {
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) show_status("");
}

void write_line(std::FILE* file, const std::string& line) {
  clear_status();
  write(file, line + '\n');
  if (file == stdout) is_line_open = false;
}

}  // namespace

void guard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond `ulimit -f` is an error of write()
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    // The lowest free descriptor is the one that open() gives.
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDWR) == -1) return;
  }
}

void print_line(const std::string& line) { write_line(stdout, line); }
void print_text(const std::string& text) {
  clear_status();
  write(stdout, text);
  is_line_open = !text.ends_with('\n');
}

void warn(const std::string& line) {
  write_line(stderr, painted("zero:", Colour::kYellow, stderr) + " " + line);
}

void set_loudness(Loudness value) { loudness = value; }

void tell(const std::string& line) {
  if (loudness != Loudness::kQuiet) print_line(line);
}

void tell_more(const std::string& line) {
  if (loudness == Loudness::kVerbose) print_line(line);
}

std::string painted(const std::string& text, Colour colour, std::FILE* stream) {
  const char* terminal = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  const bool is_plain = isatty(fileno(stream)) == 0 || (no_colour && *no_colour) ||
                        !terminal || std::string_view(terminal) == "dumb";
  if (is_plain) return text;
  return fmt::format("\033[1;{}m{}\033[0m", static_cast<int>(colour), text);
}

void set_status(const std::string& line) {
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) show_status(is_line_open ? "" : line);
}

std::string printable(const std::string& bytes) {
  std::string safe;
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto [bytes, is_control, is_cut] = first_character(rest);
    const bool is_shown =
        bytes > 0 && (!is_control || rest[0] == '\n' || rest[0] == '\t');
    if (is_shown)
      safe += rest.substr(0, bytes);
    else
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[0]));
    rest.remove_prefix(is_shown ? bytes : 1);
  }
  return safe;
}

}  // namespace zero::launcher
