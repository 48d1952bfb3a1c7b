#pragma once
#include <optional>
#include <string>

namespace zero::launcher {

// Lines that a person types, or that a file or a pipe has.
//
// On a terminal they are edited with its keys, by libedit if this machine has it, and
// those of before are called back by the arrows. A signal that asks to stop leaves the
// program at once, with kInterrupted, and the terminal as it was; libedit sends it to all
// of the process group.
class LineEditor {
 public:
  LineEditor();

  bool is_on_terminal() const { return is_on_terminal_; }
  // Without its end; the prompt is for people at a terminal. Nothing: no more come.
  std::optional<std::string> read(const std::string& prompt);

 private:
  using ReadLine = char* (*)(const char* prompt);
  using AddHistory = int (*)(const char* line);

  std::optional<std::string> edited(const std::string& prompt);

  const bool is_on_terminal_;
  ReadLine read_line_ = nullptr;  // null: lines are not edited
  AddHistory add_history_ = nullptr;
};

}  // namespace zero::launcher
