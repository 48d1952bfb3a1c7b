#include "launcher/run/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "checkpoint/names.h"

namespace zero::launcher {
namespace {

std::mutex mutex;
std::string status;  // guarded by mutex

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

void write_line(std::FILE* file, const std::string& line) {
  const std::lock_guard lock(mutex);
  show_status("");
  write(file, line + '\n');
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
void warn(const std::string& line) { write_line(stderr, "zero: " + line); }

void set_status(const std::string& line) {
  const std::lock_guard lock(mutex);
  show_status(line);
}

std::string printable(const std::string& bytes) {
  std::string safe;
  for (std::string_view rest = bytes; !rest.empty();) {
    const auto [bytes, is_control] = checkpoint::first_character(rest);
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
