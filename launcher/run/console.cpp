#include "launcher/run/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "launcher/settings/values.h"

namespace zero::launcher {
namespace {

void write_line(std::FILE* file, const std::string& line) {
  const std::string text = line + '\n';
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
  std::clearerr(file);
}

bool is_printable(const std::string& character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < 0x20) return first == '\n' || first == '\t';
  const bool is_c1_control =
      character[0] == '\xc2' && static_cast<unsigned char>(character[1]) < 0xa0;
  return first != 0x7f && !is_c1_control;
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

std::string printable(const std::string& bytes) {
  std::string safe;
  for (size_t begin = 0, length = 1; begin < bytes.size(); begin += length) {
    length = 1;
    while (length < 4 && begin + length < bytes.size() &&
           !is_utf8(bytes.substr(begin, length)))
      ++length;
    const std::string character = bytes.substr(begin, length);
    if (is_utf8(character) && is_printable(character)) {
      safe += character;
    } else {
      length = 1;
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[begin]));
    }
  }
  return safe;
}

}  // namespace zero::launcher
