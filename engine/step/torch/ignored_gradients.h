#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "zero/ranks.h"

namespace zero {

// Make .grad of parameters that are whole on every rank the sum over all ranks times
// `factor`. A rank without one counts as zeros; where no rank has one there is none.
// Sums are in fp64, in the tree of Ranks::all_reduce. Collective.
void average_gradients(const std::vector<at::Tensor>& params, double factor,
                       Ranks& ranks);

}  // namespace zero
