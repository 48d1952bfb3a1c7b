#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace zero::checkpoint {

// Differences that are wanted. Names are shell patterns over FQNs: "blocks.3.*".
struct Allowances {
  std::vector<std::string> missing = {};
  std::vector<std::string> extra = {};
};

// List all that keeps a checkpoint from fitting a model, a line for each: tensors that it
// lacks, that the model lacks, of another shape, of another type. `expected` are the
// model's, without pieces.
//
// Extras are looked for among parameters and buffers, and `with_state` among what
// optimizers keep. Aliases count as present.
std::vector<std::string> compare(const std::vector<StoredTensor>& expected,
                                 const Manifest& manifest, bool with_state = true,
                                 const Allowances& allowed = {});

// Throw one CheckpointError that lists every difference; none: do nothing. `checkpoint`
// is its path.
void require_none(const std::vector<std::string>& differences,
                  const std::string& checkpoint);

}  // namespace zero::checkpoint
