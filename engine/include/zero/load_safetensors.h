#pragma once
#include <string>
#include <vector>

namespace zero {

class Engine;

// How the names of a folder's tensors differ from a model's FQNs.
struct SafetensorsNames {
  std::string prefix;             // that older files leave out: "transformer."
  std::vector<std::string> dead;  // globs of tensors that nobody needs: old buffers
};

// Set all parameters to the weights of a folder in the safetensors format, such as those
// at Hugging Face; the optimizer's state and num_steps() stay. Collective.
//
// Each rank reads only its own slices, straight into its shards. A tied parameter may
// stand there under any of its names; under several, they must be equal. Returns the
// names of dead tensors. Missing, extra and misshapen ones are listed in one
// CheckpointError, before anything of the engine is changed; an error while reading is
// thrown by all ranks, and the engine must load something before it goes on.
std::vector<std::string> load_safetensors(Engine& engine, const std::string& folder,
                                          const SafetensorsNames& names = {});

}  // namespace zero
