#pragma once
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "launcher/process/process.h"
#include "zero/errors.h"

namespace zero::launcher {

// A program that answers lines of JSON with lines of JSON: scripts/tokens/child.py, in a
// process of its own, which ends with this object.
//
// What it is asked throws Error(kEnvironment) where it cannot start, dies, hangs or
// answers nonsense, with its last words; Error(kInterrupted) when this program is asked
// to stop during long work, that is, where news come; and the problem that it answers, of
// the exit code that it gives. One thread at a time.
class PythonChild {
 public:
  explicit PythonChild(const std::vector<std::string>& command);

  // Told of each line before the answer: those that have "read".
  using OnNews = std::function<void(const nlohmann::json& news)>;
  nlohmann::json ask(const nlohmann::ordered_json& question, const OnNews& on_news = {});

  // Of its answer, that value.
  template <class Value>
  Value ask(const nlohmann::ordered_json& question, const char* key) {
    const nlohmann::json answer = ask(question);
    try {
      return answer.at(key).get<Value>();
    } catch (const nlohmann::json::exception&) {
      fail_by_lack(key, answer);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  PythonChild(const std::vector<std::string>& command, std::pair<int, int> ends);
  [[noreturn]] void fail(const std::string& what);
  [[noreturn]] void fail_by_lack(const char* key, const nlohmann::json& answer);
  [[noreturn]] void fail_by_death();
  [[noreturn]] void tell(const nlohmann::json& answer) const;
  void wait_for(short event, Clock::time_point deadline);
  void send(std::string_view text);
  std::string receive(std::chrono::seconds patience);

  const std::string program_;
  Descriptor ours_;
  std::optional<Descriptor> theirs_;
  Descriptor errors_;
  Child child_;
  std::string received_;
  bool is_long_ = false;  // what it is asked
};

// The words that start it: of `python`, else of the Python that this was built with, else
// of python3.
std::vector<std::string> child_command(const std::string& python);

}  // namespace zero::launcher
