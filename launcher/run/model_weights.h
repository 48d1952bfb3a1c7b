#pragma once
#include <string>
#include <vector>

#include "launcher/model.h"
#include "launcher/run/saved_run.h"
#include "zero/save_load.h"

namespace zero {
class Engine;
}

namespace zero::launcher {

// Where the weights of a model lie: in a folder of Hugging Face, or in a checkpoint.
struct WeightsPlace {
  std::string path;
  bool is_checkpoint = false;
  // Of a checkpoint: what it may lack and have besides.
  LoadOptions options = {};
  std::vector<std::string> may_lack = {};   // globs of parameters that it need not have
  std::vector<std::string> elsewhere = {};  // names of parts of the model that this one
                                            // is not
};

// What came of it.
struct WeightsRead {
  std::vector<std::string> dead;  // tensors of a folder that nobody needs
  SavedState state;               // of a checkpoint
};

// Set an engine's parameters to them, and to the frozen ones that a checkpoint has left
// out. Collective. Throws as load_checkpoint() and load_safetensors() do, and
// Error(kCheckpoint) where those that were left out are not where they came from.
WeightsRead read_weights(Engine& engine, const WeightsPlace& place,
                         const ModelFamily& family, const ModelShape& shape);

// The same of the frozen parameters alone that a run does not save; the others get
// whatever lies there. `else_at`: where they may be now, or "". Returns where they are.
std::string read_frozen(Engine& engine, const FrozenSource& source,
                        const std::string& else_at, const ModelFamily& family,
                        const ModelShape& shape);

// Those of an engine that it will never train.
std::vector<std::string> frozen_for_good(Engine& engine);

// What they are, of weights that lie there. Collective.
FrozenSource frozen_source(Engine& engine, const std::string& path);

}  // namespace zero::launcher
