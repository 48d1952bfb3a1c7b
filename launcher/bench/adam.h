#pragma once
#include <vector>

#include "launcher/bench/options.h"
#include "launcher/bench/row.h"

namespace zero::launcher {

// Time the update of a rank's shard, and the norm of its gradient, on this process alone.
//
// Rows "sum with norm" (the pass that completes a sum of gradients; its limit is that
// pass without the norm), "update" (AdamW on fp32 arrays, without and with a copy in
// bf16) and
// "update and norm" (what the norm has added to that pass, too), for 1 unit and 24, each of 12 tensors that have the sizes of a
// transformer's block, on 1, 2, 4 ... all threads.
std::vector<Row> bench_adam(const BenchOptions& options);

}  // namespace zero::launcher
