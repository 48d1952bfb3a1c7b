#pragma once
#include <string>
#include <vector>

#include "engine/errors.h"

namespace zero::launcher {

// One thing that is wrong with what the user wrote, and where it was written.
struct Problem {
  std::string text;  // lr is "-1"; allowed: a number from 0
  // --lr, ZERO_LR, run.toml line 3; empty when several settings do not fit together.
  std::string origin;
};
using Problems = std::vector<Problem>;

void append(Problems& all, Problems more);

// One usage error that tells all problems, at least one. `verb` names the help page that
// cures them.
Error to_error(const Problems& problems, const std::string& verb);

}  // namespace zero::launcher
