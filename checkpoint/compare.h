#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace zero::checkpoint {

struct Mismatch {
  Kind kind = Kind::kParam;
  std::string fqn;
  std::string expected, found;  // shapes or types; empty where it is not there at all
};

// All that keeps a checkpoint from fitting a model.
struct Differences {
  std::vector<Mismatch> missing;    // the model has it, the checkpoint does not
  std::vector<Mismatch> extra;      // the checkpoint has it, the model does not
  std::vector<Mismatch> misshapen;  // both have it, of other shapes
  std::vector<Mismatch> retyped;    // both have it, of other types

  bool empty() const;
};

// Differences that are wanted. Names are shell patterns over FQNs: "blocks.3.*".
struct Allowances {
  std::vector<std::string> missing = {};
  std::vector<std::string> extra = {};
  bool widening = false;  // bf16 or fp16 for fp32, fp32 for fp64; the caller converts
};

// Compare a model's tensors (without pieces) with a checkpoint's. Extras are looked for
// among `kinds`: give {kParam, kBuffer} to load the model without the optimizer. Aliases
// count as present.
Differences compare(const std::vector<StoredTensor>& expected, const Manifest& manifest,
                    const std::vector<Kind>& kinds = {Kind::kParam, Kind::kExpAvg,
                                                      Kind::kExpAvgSq, Kind::kBuffer},
                    const Allowances& allowed = {});

// One text with a line for every difference.
std::string to_string(const Differences& differences);

// Throw one CheckpointError that lists every difference; none: do nothing. `checkpoint`
// is its path.
void require_none(const Differences& differences, const std::string& checkpoint);

}  // namespace zero::checkpoint
