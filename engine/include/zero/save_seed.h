#pragma once
#include <string>

#include "zero/options.h"

namespace torch::nn {
class Module;
}

namespace zero {

struct SavedState;

// Write run/step_000000000000/ with the first values of a model and no optimizer's state:
// what an engine with Source::kInit and these options (`seed`, `init`) would start with
// on any number of ranks, bit for bit. Returns the folder's path.
//
// One process does it, without an engine: a deferred parameter's values are made where
// they are written, so that no more of the model than its buffers is in memory, and one
// parameter that is replayed, or the module of one init function. Those are called more
// than once. Options::post_init is refused: it needs an engine.
// Of `state` config and position are kept. Throws Error(kUsage) for parameters without a
// rule, and CheckpointError.
std::string save_seed(torch::nn::Module& model, const Options& options,
                      const std::string& run, const SavedState& state,
                      bool replace = false);

}  // namespace zero
