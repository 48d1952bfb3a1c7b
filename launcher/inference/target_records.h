#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "launcher/data/samples.h"

namespace zero::launcher {

// What a model says of each token of the first `count` rows of a batch, samples from
// `first` on: lines of JSON,
//
//   {"sample": 0, "tokens": [5, 7, 9], "targets": [null, 9, 2],
//    "log_probs": [null, -0.5, -2]}
//
// tokens[i] and those before it are read, targets[i] is what follows; null: it does not
// count. They end with the last target that does. A log probability that is no number is
// null. losses: of each target, (rows, seq_len).
std::string target_records(const data::Batch& batch, std::span<const float> losses,
                           int64_t first, int64_t count);

}  // namespace zero::launcher
