#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace zero::checkpoint {

// Say what is wrong with a checkpoint, where, and what to do about it.
//
// what() is one text: "FILE: FQN: problem; cure". The parts are there for callers that
// print them on lines of their own; those that do not apply are empty.
class CheckpointError : public std::runtime_error {
 public:
  CheckpointError(std::string file, std::string fqn, std::string problem,
                  std::string cure = {});

  const std::string& file() const { return file_; }
  const std::string& fqn() const { return fqn_; }
  const std::string& problem() const { return problem_; }
  const std::string& cure() const { return cure_; }

 private:
  std::string file_, fqn_, problem_, cure_;
};

// One text of several parts: text_of("has ", 12, " bytes").
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

// Throw for a failed system call: "PATH: cannot write 12 bytes: No space left on device".
[[noreturn]] void throw_errno(const std::string& path, const std::string& action,
                              int error);

// Make a name of unknown origin safe to print: control characters and bytes that are not
// UTF-8 become \xNN, a long text is cut.
std::string printable(std::string_view text);

}  // namespace zero::checkpoint
