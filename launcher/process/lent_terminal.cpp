#include "launcher/process/lent_terminal.h"

#include <signal.h>
#include <unistd.h>

namespace zero::launcher {

LentTerminal::LentTerminal()
    : is_ours_(tcgetpgrp(STDIN_FILENO) == getpgrp() &&
               tcgetattr(STDIN_FILENO, &before_) == 0) {}

void LentTerminal::take() const {
  if (!is_ours_) return;
  ::signal(SIGTTOU, SIG_IGN);  // whoever takes a terminal is not in front yet
  tcsetpgrp(STDIN_FILENO, getpid());
  ::signal(SIGTSTP, SIG_IGN);
}

LentTerminal::~LentTerminal() {
  if (!is_ours_) return;
  ::signal(SIGTTOU, SIG_IGN);
  tcsetpgrp(STDIN_FILENO, getpgrp());
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

}  // namespace zero::launcher
