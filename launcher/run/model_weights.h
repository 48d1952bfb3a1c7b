#pragma once
#include <map>
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
  std::vector<std::string> elsewhere = {};  // names of parts that this model is without
};

// What came of it.
struct WeightsRead {
  std::vector<std::string> dead;  // tensors of a folder that nobody needs
  SavedState state;               // of a checkpoint
};

// Set an engine's parameters to them, and to the frozen ones that a checkpoint has left
// out. Collective. Throws as load_checkpoint() and load_safetensors() do, and as
// read_frozen().
WeightsRead read_weights(Engine& engine, const WeightsPlace& place,
                         const ModelFamily& family, const ModelShape& shape);

// The first of these that is there: a model's folder, a run's or one of its steps.
// Collective. Throws Error(kCheckpoint) where none is.
WeightsPlace find_frozen(Engine& engine, const std::vector<std::string>& paths);

// Set the frozen parameters that a run does not save, as they lie there; the others get
// what lies there, too, or what they would start with. Collective. Throws as
// read_weights(), and Error(kCheckpoint) where they are others than `source` tells.
void read_frozen(Engine& engine, const FrozenSource& source, WeightsPlace place,
                 const ModelFamily& family, const ModelShape& shape);

// Frozen parameters as they lie in some place: checksums of all that an engine will never
// train, but for adapters and what that place lacks. Collective.
using Checksums = std::map<std::string, uint64_t>;
Checksums frozen_checksums(Engine& engine, const std::vector<std::string>& lacking);

// Those of them that are the same now, which a checkpoint may be without. Collective.
FrozenSource unchanged(Engine& engine, const Checksums& before, const std::string& path);

// Set the adapters of a model, what else of it is trained, and what else is there, to the
// values that a folder of peft has; the rest stays. Collective. Throws as
// load_safetensors() does.
void read_adapter_weights(Engine& engine, const std::string& folder,
                          const ModelFamily& family);

}  // namespace zero::launcher
