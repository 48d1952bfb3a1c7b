#include "launcher/process/lent_terminal.h"

#include <signal.h>
#include <unistd.h>

#include "launcher/process/handler_scope.h"
#include "zero/errors.h"

namespace zero::launcher {

LentTerminal::LentTerminal() {
  const pid_t in_front = tcgetpgrp(STDIN_FILENO);
  if (in_front < 0 || tcgetattr(STDIN_FILENO, &before_) != 0) return;
  if (in_front != getpgrp())
    throw Error(ExitCode::kUsage, "a job in the background has no keys to read",
                "--interactive", "fg; or lines of a file, as standard input");
  is_ours_ = true;
  // From now on this process is not in front, and may write all the same.
  ::signal(SIGTTOU, SIG_IGN);
}

void LentTerminal::take() const {
  if (!is_ours_) return;
  tcsetpgrp(STDIN_FILENO, getpid());
  // Held, not ignored: libedit takes an end of its input for one that is.
  change_signal_mask(SIG_BLOCK, {SIGTSTP});
}

LentTerminal::~LentTerminal() {
  if (!is_ours_) return;
  tcsetpgrp(STDIN_FILENO, getpgrp());
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

}  // namespace zero::launcher
