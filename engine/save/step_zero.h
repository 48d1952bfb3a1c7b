#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/slices.h"
#include "engine/unit/model_scan.h"
#include "zero/save_load.h"

// A model's values as a checkpoint of step 0 without an optimizer's state, by one
// process.
namespace zero {

// How a checkpoint has a buffer of the model, or a parameter that stays whole. None: it
// has no type of ours and is not saved.
std::optional<checkpoint::StoredTensor> stored_whole(const ScannedModel& model,
                                                     size_t buffer);

// What an engine would save of them, as it would.
struct WholeTensor {
  checkpoint::StoredTensor tensor;
  at::Tensor values;  // contiguous, of its type
};
std::vector<WholeTensor> whole_tensors(const ScannedModel& model);

// Write run/step_000000000000/; returns its path. `params`: slices of whole parameters.
// Of `state` config and position are kept. When this throws, what was there stays.
std::string write_step_zero(const ScannedModel& model,
                            std::vector<checkpoint::Slice> params,
                            const std::vector<WholeTensor>& whole, const std::string& run,
                            const SavedState& state, bool replace);

}  // namespace zero
