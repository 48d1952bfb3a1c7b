#pragma once
#include <termios.h>

#include "base/no_copy.h"

namespace zero::launcher {

// The terminal on standard input, lent to a process that this one starts: keys and the
// signals that they make go there. It is taken back, as it was, at the end. Does nothing
// where there is no terminal.
class LentTerminal : NoCopy {
 public:
  // Throws Error(kUsage) in a job in the background.
  LentTerminal();
  ~LentTerminal();

  // Between fork and exec, in a process that leads its group. Ctrl-Z does not stop it:
  // the shell knows this process alone, and could not make that one go on.
  void take() const;

 private:
  termios before_ = {};
  bool is_ours_ = false;
};

}  // namespace zero::launcher
