#include "launcher/run/line_editor.h"

#include <dlfcn.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "launcher/process/handler_scope.h"
#include "launcher/run/console.h"
#include "zero/errors.h"

namespace zero::launcher {
namespace {

constexpr std::array kLeaveBy = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

termios of_before;  // for the handler

// Nothing here but what a handler may do. libedit restores the terminal before signals
// that it knows get here, and SIGUSR1 is none of them.
void restore_and_leave(int) {
  tcsetattr(STDIN_FILENO, TCSADRAIN, &of_before);
  [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, "\n", 1);
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

// libedit reads characters as the locale has them; nothing else here depends on it.
void use_wide_characters() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

std::optional<std::string> plain_line() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

LineEditor::LineEditor()
    : is_on_terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
  if (!is_on_terminal_) return;
  void* library = nullptr;
  for (const char* name : {"libedit.so.2", "libedit.so.0"})  // of Debian; of others
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  use_wide_characters();
  // As GNU's readline has them.
  read_line_ = reinterpret_cast<ReadLine>(dlsym(library, "readline"));
  add_history_ = reinterpret_cast<AddHistory>(dlsym(library, "add_history"));
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (!is_on_terminal_ || tcgetattr(STDIN_FILENO, &of_before) != 0) return plain_line();
  const HandlerScope leaves(kLeaveBy, restore_and_leave);
  if (read_line_ && add_history_) return edited(prompt);
  print_text(prompt);
  const auto line = plain_line();
  if (!line) print_line("");
  return line;
}

std::optional<std::string> LineEditor::edited(const std::string& prompt) {
  const std::unique_ptr<char, decltype(&std::free)> line(read_line_(prompt.c_str()),
                                                         std::free);
  if (!line) {
    print_line("");
    return std::nullopt;
  }
  if (*line) add_history_(line.get());
  return line.get();
}

}  // namespace zero::launcher
