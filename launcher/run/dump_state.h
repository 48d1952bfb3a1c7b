#pragma once

#include <span>
#include <string>
#include <vector>

#include "zero/reports.h"

namespace zero {
class Engine;
}
namespace zero::launcher {

// Write this rank's state bit for bit, for tests: DIR/rank_00003.bin holds a line and
// fp32 values one after the other, and DIR/rank_00003.json says where which slice of
// which parameter lies:
//
//   {"rank": 3, "size": 4, "step": 20, "losses": ["0x1.63p+2", ...],
//    "parameters": [{"fqn": .., "shape": [..], "begin": .., "numel": .., "frozen": false,
//    "aliases": [..],
//                    "master": OFFSET, "exp_avg": OFFSET, "exp_avg_sq": OFFSET}, ...]}
//
// Offsets are in bytes; of the optimizer's state there is what states_of() names.
// `losses` are those of every step, as C prints them with %a. Creates the folder, and
// replaces its own older files alone. Throws Error(kCheckpoint) when it cannot write.
void dump_state(const std::string& folder, Engine& engine,
                std::span<const double> losses);

// Write how parameters and buffers started, as JSON. Throws Error(kEnvironment) where the
// file cannot be written.
void write_init_report(const std::string& path, const std::vector<InitEntry>& entries);

}  // namespace zero::launcher
