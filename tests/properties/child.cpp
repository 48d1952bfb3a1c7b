#include "tests/properties/child.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <system_error>
#include <utility>

namespace zero::properties {
namespace {

void write_all(int file, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written <= 0) _exit(1);  // nobody listens any more
    done += static_cast<size_t>(written);
  }
}

}  // namespace

// Reports end with a zero byte.
Child::Child(const std::function<void(const Report&)>& work) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ > 0) {
    close(ends[1]);
    pipe_ = ends[0];
    return;
  }
  close(ends[0]);
  const Report report = [&](const std::string& text) { write_all(ends[1], text + '\0'); };
  try {
    work(report);
  } catch (const std::exception& error) {
    report(error.what());
  }
  _exit(0);
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipe_(std::exchange(other.pipe_, -1)),
      is_late_(other.is_late_),
      read_(std::move(other.read_)) {}

Child::~Child() { end(); }

std::optional<std::string> Child::next(int timeout_seconds) {
  for (;;) {
    if (const size_t zero = read_.find('\0'); zero != std::string::npos) {
      std::string text = read_.substr(0, zero);
      read_.erase(0, zero + 1);
      return text;
    }
    pollfd waiting{pipe_, POLLIN, 0};
    is_late_ = poll(&waiting, 1, timeout_seconds * 1000) == 0;
    char buffer[4096];
    const ssize_t size = is_late_ ? 0 : read(pipe_, buffer, sizeof buffer);
    if (size <= 0) return {};
    read_.append(buffer, static_cast<size_t>(size));
  }
}

std::string Child::end() {
  if (pid_ < 0) return "";
  if (is_late_) kill(pid_, SIGKILL);
  close(pipe_);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  if (is_late_) return "it hangs";
  if (WIFSIGNALED(status)) return strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "it exits";
}

}  // namespace zero::properties
