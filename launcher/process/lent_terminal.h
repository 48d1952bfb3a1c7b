#pragma once
#include <termios.h>

namespace zero::launcher {

// The terminal on standard input, lent to a process that this one starts: keys and the
// signals that they make go there. It is taken back, as it was, at the end. Does nothing
// where there is no terminal, or it belongs to others.
class LentTerminal {
 public:
  LentTerminal();
  ~LentTerminal();
  LentTerminal(const LentTerminal&) = delete;
  LentTerminal& operator=(const LentTerminal&) = delete;

  // Between fork and exec, in a process that leads its group. No key stops it: nothing
  // could make it go on.
  void take() const;

 private:
  termios before_ = {};  // set by what decides is_ours_
  const bool is_ours_;
};

}  // namespace zero::launcher
