#pragma once
#include <vector>

#include "launcher/bench/options.h"
#include "launcher/bench/row.h"

namespace zero::launcher {

// Time a checkpoint of `options.size` bytes of masters and moments, saved and loaded by
// this process alone, against a plain file of the same bytes, written with fsync and
// read. Both are read when the system has been told to forget their pages.
//
// Everything lies in a folder of its own in `settings.out`, which goes away. Throws
// Error(kCheckpoint) when that cannot be made.
std::vector<Row> bench_checkpoint(const BenchOptions& options);

}  // namespace zero::launcher
