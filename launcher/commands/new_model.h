#pragma once
#include <memory>
#include <string>

#include "checkpoint/run_lock.h"
#include "launcher/model.h"
#include "launcher/settings/settings.h"
#include "zero/options.h"
#include "zero/save_load.h"

// What `seed` and `import` share: a new model, and a folder for its checkpoint of step 0.
namespace zero::launcher {

struct NewModel {
  const ModelFamily& family;
  ModelShape shape;
  std::unique_ptr<Model> model;  // deferred
  Options options;
  SavedState state;  // what the run that starts from it has to know
};

// The vocabulary: --vocab, else the preset's, else the data's, else that of text.
NewModel new_model(const ModelFamilies& models, const Settings& settings);

// `flag` names the folder.
void require_no_steps(const std::string& folder, const std::string& flag);

// The folder's lock, held while its checkpoint is written; what a killed process has left
// there goes. Throws as require_no_steps() does.
std::unique_ptr<checkpoint::RunLock> take_folder(const std::string& folder,
                                                 const std::string& flag);

}  // namespace zero::launcher
