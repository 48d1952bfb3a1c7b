#include "launcher/run/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "launcher/process/stop.h"
#include "launcher/settings/config.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

std::mutex mutex;
std::string status;  // guarded by mutex
Loudness loudness = Loudness::kUsual;

bool is_quiet() { return loudness == Loudness::kQuiet; }
std::atomic<bool> is_line_open = false;  // of stdout: a status would stand in it

// Waits until somebody takes what is printed, but not once a signal has asked to stop:
// then the run must save and end. Errors are told by write().
bool is_taken(int stream) {
  constexpr int kLookMs = 100;
  while (true) {
    pollfd one{stream, POLLOUT, 0};
    if (poll(&one, 1, kLookMs) > 0) return true;
    if (stop_signal() != 0) return false;
  }
}

// Of a terminal that knows it.
std::optional<size_t> terminal_columns(int stream) {
  winsize size{};
  const bool is_known = ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return is_known ? std::optional<size_t>(size.ws_col) : std::nullopt;
}

void show_status(const std::string& line) {
  if (line == status) return;
  write_out(stderr, "\r\033[K" +
                        line.substr(0, terminal_columns(STDERR_FILENO).value_or(80) - 1));
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
  write_out(file, line + '\n');
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

namespace {

std::atomic<int> error_of_stdout = 0;  // the first; a reader that has left is none

void note_error(std::FILE* file, int error) {
  int none = 0;
  if (file == stdout && error != EPIPE)
    error_of_stdout.compare_exchange_strong(none, error);
}

}  // namespace

void require_output(const std::string& what) {
  if (std::fflush(stdout) != 0) note_error(stdout, errno);
  // An earlier one of the C library's, of which nobody kept the number.
  pollfd reader{STDOUT_FILENO, 0, 0};
  const bool is_gone = ::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
  if (std::ferror(stdout) && !is_gone) note_error(stdout, EIO);
  if (error_of_stdout == 0) return;
  throw Error(ExitCode::kCheckpoint,
              what + " cannot be written: " + std::strerror(error_of_stdout),
              "standard output", "room on the disk");
}

// A pipe that can be written at all takes PIPE_BUF bytes without waiting.
bool write_out(std::FILE* file, std::string_view text) {
  std::fflush(file);
  const int stream = fileno(file);
  while (!text.empty() && is_taken(stream)) {
    const ssize_t done =
        ::write(stream, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
    if (done >= 0)
      text.remove_prefix(static_cast<size_t>(done));
    else if (errno != EINTR && errno != EAGAIN) {
      note_error(file, errno);
      return errno == EPIPE;
    }
  }
  return true;
}

void print_line(const std::string& line) { write_line(stdout, line); }
void print_text(const std::string& text, const std::string& what) {
  clear_status();
  if (!write_out(stdout, text)) require_output(what);
  is_line_open = !text.ends_with('\n');
}

void warn(const std::string& line) {
  write_line(stderr, painted("zero:", Colour::kYellow, stderr) + " " + printable(line));
}

void set_loudness(Loudness value) { loudness = value; }

void tell(const std::string& line) { tell_painted(printable(line)); }

void tell_painted(const std::string& line) {
  if (!is_quiet()) print_line(line);
}

void tell_aside(const std::string& line) {
  if (!is_quiet()) write_line(stderr, printable(line));
}

void tell_more(const std::string& line) {
  if (loudness == Loudness::kVerbose) print_line(printable(line));
}

size_t width_of_stdout() {
  if (const auto columns = terminal_columns(STDOUT_FILENO)) return *columns;
  const char* told = std::getenv(kColumnsVariable);
  const int64_t columns = told ? parse_integer(told).value_or(0) : 0;
  return columns > 1 ? static_cast<size_t>(columns) : kNoEnd;
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
  return zero::printable(bytes, "\n\t", bytes.npos);
}

}  // namespace zero::launcher
