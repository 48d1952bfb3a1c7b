#pragma once
#include <poll.h>
#include <unistd.h>

#include <string_view>

namespace zero::launcher {

// Say a line on stderr in a handler of signals, where nothing may wait. It is lost where
// nobody takes it.
inline void say_in_handler(std::string_view line) {
  pollfd errors{STDERR_FILENO, POLLOUT, 0};
  if (poll(&errors, 1, 0) != 1 || errors.revents != POLLOUT) return;
  [[maybe_unused]] const ssize_t ignored = write(errors.fd, line.data(), line.size());
}

}  // namespace zero::launcher
