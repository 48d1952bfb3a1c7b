#include "launcher/text/python_child.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/process/stop.h"
#include "launcher/settings/shallow_json.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// With one line; and with one of long work, which may wait for a disk.
constexpr auto kPatience = std::chrono::seconds(60),
               kLongPatience = std::chrono::seconds(600);
constexpr int kLookMs = 100;

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::pair<int, int> make_sockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw_by_errno("cannot make sockets for a tokenizer");
  return {ends[0], ends[1]};
}

// The other ranks of the host wait for what it makes.
void use_all_cores() {
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  sched_setaffinity(0, sizeof all, &all);
}

}  // namespace

PythonChild::PythonChild(const std::vector<std::string>& command)
    : PythonChild(command, make_sockets()) {}

PythonChild::PythonChild(const std::vector<std::string>& command,
                         std::pair<int, int> ends)
    : program_(fs::path(command.front()).lexically_normal().string()),
      ours_(ends.first),
      theirs_(std::in_place, ends.second),
      errors_(memfd_create("errors", MFD_CLOEXEC)),
      child_(command, process_environment(), SIGKILL, [this] {
        dup2(*theirs_, STDIN_FILENO);
        dup2(*theirs_, STDOUT_FILENO);
        dup2(errors_, STDERR_FILENO);
        use_all_cores();
      }) {
  theirs_.reset();  // else its death would not end what we read
}

json PythonChild::ask(const nlohmann::ordered_json& question, const OnNews& on_news) {
  is_long_ = static_cast<bool>(on_news);
  send(question.dump() + "\n");
  while (true) {
    const std::string line = receive(is_long_ ? kLongPatience : kPatience);
    json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object()) fail("answers what is no JSON: " + line.substr(0, 80));
    if (answer.contains("problem")) tell(answer);
    if (!on_news || !answer.contains("read")) return answer;
    on_news(answer);
  }
}

void PythonChild::fail(const std::string& what) {
  const std::string last = last_line(text_in(errors_));
  throw Error(
      ExitCode::kEnvironment, "the tokenizer " + what, program_,
      last.empty() ? "--python FILE chooses another Python" : "its last words: " + last);
}

void PythonChild::fail_by_lack(const char* key, const json& answer) {
  fail(fmt::format("answers without {}: {}", key, answer.dump().substr(0, 80)));
}

void PythonChild::tell(const json& answer) const {
  const json told = answer.value("code", json());
  ExitCode code = ExitCode::kEnvironment;
  for (const ExitCode known : {ExitCode::kData, ExitCode::kUsage})
    if (told == static_cast<int>(known)) code = known;
  throw Error(code, text_in(answer, "problem", answer.dump()),
              text_in(answer, "where", program_), text_in(answer, "try"));
}

void PythonChild::fail_by_death() {
  child_.end();
  fail(child_.code() == kCannotStart ? "cannot be started" : "has died");
}

void PythonChild::wait_for(short event, Clock::time_point deadline) {
  while (true) {
    if (is_long_ && stop_signal() != 0)
      throw Error(ExitCode::kInterrupted, "stopped", "a tokenizer");
    if (Clock::now() > deadline) fail("does not answer");
    pollfd ready{ours_, event, 0};
    if (poll(&ready, 1, kLookMs) > 0) return;
  }
}

void PythonChild::send(std::string_view text) {
  const auto deadline = Clock::now() + kPatience;
  while (!text.empty()) {
    wait_for(POLLOUT, deadline);
    const ssize_t sent =
        ::send(ours_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent <= 0) fail_by_death();
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string PythonChild::receive(std::chrono::seconds patience) {
  const auto deadline = Clock::now() + patience;
  size_t end = 0;
  while ((end = received_.find('\n')) == received_.npos) {
    wait_for(POLLIN, deadline);
    char block[1 << 16];
    const ssize_t got = read(ours_, block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_by_death();
    received_.append(block, static_cast<size_t>(got));
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::vector<std::string> child_command(const std::string& python) {
  const std::string chosen = !python.empty()           ? python
                             : fs::exists(ZERO_PYTHON) ? ZERO_PYTHON
                                                       : "python3";
  const fs::path installed =
      fs::path(path_of_this_program()).parent_path().parent_path() /
      "share/zero/tokens/child.py";
  const fs::path script = fs::exists(installed)
                              ? installed
                              : fs::path(ZERO_SOURCE_DIR "/scripts/tokens/child.py");
  return {chosen, "-I", "-X", "utf8", script.string()};  // whatever the locale
}

}  // namespace zero::launcher
