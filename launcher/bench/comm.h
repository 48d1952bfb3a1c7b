#pragma once
#include <vector>

#include "launcher/bench/options.h"
#include "launcher/bench/row.h"

namespace zero::launcher {

class World;

// Time all_gather and reduce_scatter of `options.size` bytes in all against memcpy of as
// many on each rank at once; the slowest rank counts. Collective, the same rows on all.
std::vector<Row> bench_comm(const BenchOptions& options, const World& world);

}  // namespace zero::launcher
