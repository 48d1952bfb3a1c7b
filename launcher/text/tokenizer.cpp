#include "launcher/text/tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "launcher/process/process.h"
#include "launcher/process/stop.h"
#include "launcher/settings/values.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(60);  // with one answer
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

}  // namespace

// Lines of JSON to it and from it.
class Tokenizer::Process {
 public:
  explicit Process(const std::vector<std::string>& command)
      : Process(command, make_sockets()) {}

  json ask(const json& question) {
    send(question.dump() + "\n");
    const std::string line = receive();
    json answer = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object()) fail("answers what is no JSON: " + line.substr(0, 80));
    if (answer.contains("problem")) tell(answer);
    return answer;
  }
  template <class T>
  T ask(const json& question, const char* key) {
    const json answer = ask(question);
    try {
      return answer.at(key).get<T>();
    } catch (const json::exception&) {
      fail(fmt::format("answers without {}: {}", key, answer.dump().substr(0, 80)));
    }
  }
  [[noreturn]] void fail(const std::string& what) {
    const std::string last = last_line(text_in(errors_));
    throw Error(ExitCode::kEnvironment, "the tokenizer " + what, words_,
                last.empty() ? "ZERO_PYTHON=FILE chooses another Python"
                             : "its last words: " + last);
  }

 private:
  Process(const std::vector<std::string>& command, std::pair<int, int> ends)
      : words_(fmt::format("{}", fmt::join(command, " "))),
        ours_(ends.first),
        theirs_(std::in_place, ends.second),
        errors_(memfd_create("errors", MFD_CLOEXEC)),
        child_(command, process_environment(), SIGKILL, [this] {
          dup2(*theirs_, STDIN_FILENO);
          dup2(*theirs_, STDOUT_FILENO);
          dup2(errors_, STDERR_FILENO);
        }) {
    theirs_.reset();  // else its death would not end what we read
  }

  // Of a file there is nothing to try.
  [[noreturn]] void tell(const json& answer) const {
    const auto text = [&](const char* key, const std::string& otherwise) {
      const auto found = answer.find(key);
      return found != answer.end() && found->is_string() ? found->get<std::string>()
                                                         : otherwise;
    };
    const bool is_of_file = answer.contains("where") && !answer.contains("try");
    throw Error(is_of_file ? ExitCode::kUsage : ExitCode::kEnvironment,
                text("problem", answer.dump()), text("where", words_), text("try", ""));
  }

  [[noreturn]] void fail_by_death() {
    child_.end();
    fail(child_.code() == kCannotStart ? "cannot be started" : "has died");
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(ours_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) fail_by_death();
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }

  std::string receive() {
    const auto begin = Clock::now();
    size_t end = 0;
    while ((end = received_.find('\n')) == received_.npos) {
      if (stop_signal() != 0)
        throw Error(ExitCode::kInterrupted, "stopped", "a tokenizer");
      if (Clock::now() - begin > kPatience) fail("does not answer");
      pollfd ready{ours_, POLLIN, 0};
      if (poll(&ready, 1, kLookMs) <= 0) continue;
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

  const std::string words_;
  Descriptor ours_;
  std::optional<Descriptor> theirs_;
  Descriptor errors_;
  Child child_;
  std::string received_;
};

Tokenizer::Tokenizer(const std::string& path, const std::vector<std::string>& command)
    : process_(std::make_unique<Process>(command)) {
  process_->ask<int64_t>({{"open", path}}, "vocab");
}

Tokenizer::~Tokenizer() = default;

std::vector<int64_t> Tokenizer::encode(const std::string& text) {
  if (!is_utf8(text))
    throw Error(ExitCode::kUsage, "the text is not valid UTF-8", "", "iconv -t utf-8");
  return process_->ask<std::vector<int64_t>>({{"encode", text}}, "ids");
}

std::string Tokenizer::next(int64_t token) {
  return process_->ask<std::string>({{"next", token}}, "text");
}

std::vector<std::string> tokenizer_command(const std::vector<std::string>& environment) {
  const std::string chosen = variable(environment, "ZERO_PYTHON").value_or("");
  const std::string python = !chosen.empty()           ? chosen
                             : fs::exists(ZERO_PYTHON) ? ZERO_PYTHON
                                                       : "python3";
  const fs::path installed =
      fs::path(path_of_this_program()).parent_path().parent_path() /
      "share/zero/tokens/child.py";
  const fs::path script = fs::exists(installed)
                              ? installed
                              : fs::path(ZERO_SOURCE_DIR "/scripts/tokens/child.py");
  return {python, "-I", script.string()};
}

std::string tokenizer_of(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json";
  return fs::exists(path) ? path : "";
}

}  // namespace zero::launcher
