#pragma once
#include "engine/comm/same_lines.h"
#include "zero/options.h"

namespace zero {

// Every option as a line of its name and value; of a function, whether there is one.
// Those that all ranks must be given alike,
Lines shared_lines(const Options& options);
// and those that each may have of its own.
Lines own_lines(const Options& options);

}  // namespace zero
