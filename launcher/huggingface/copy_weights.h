#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "checkpoint/safetensors_writer.h"
#include "launcher/huggingface/held_tensors.h"
#include "launcher/huggingface/merged_weights.h"

namespace zero::launcher {

// The names of a parameter in a file that is written; more than one where readers differ.
using NamesInFile = std::function<std::vector<std::string>(const std::string& fqn)>;

// Write parameters of a checkpoint, with what `merged` adds to them, as `dtype` and under
// each of their names. One batch is fetched from the disk, one is read, and one is
// written.
//
// Throws CheckpointError; Error(kUsage) for a value that fp16 does not hold.
void copy_weights(const std::vector<HeldTensor>& parameters, MergedWeights& merged,
                  const NamesInFile& names, DType dtype,
                  checkpoint::SafetensorsWriter& writer);

}  // namespace zero::launcher
