#pragma once
#include <string>
#include <vector>

#include "checkpoint/tensor_folder.h"

// Folders that people look into, and which of their tensors.
namespace zero::launcher {

// What people want to see of them.
struct Selection {
  std::vector<std::string> globs = {};  // of FQNs; none: all
  bool state = false;                   // what the optimizer keeps, and user bytes, too
};

struct FoundFolder {
  std::string path;                      // a step's, or one with safetensors
  std::vector<std::string> passed_over;  // why newer steps of the run are not it
};

// What DIR means: a step's folder, under whatever name, or a folder with safetensors,
// itself; a run's, or a seed's, its newest complete checkpoint. Throws Error(kUsage)
// that calls it by its `name` where it is none of these, and Error(kCheckpoint) where all
// steps are damaged.
FoundFolder find_folder(const std::string& dir, const std::string& name = "DIR");

// The tensors that the globs name, in the folder's order. An alias that a glob names
// stands for its parameter.
std::vector<const checkpoint::StoredTensor*> selected_tensors(
    const checkpoint::Manifest& manifest, const Selection& selection);

// Throw one Error(kUsage) that lists the globs that match no tensor of any of these, each
// with the nearest name.
void require_matches(const std::vector<const checkpoint::Manifest*>& manifests,
                     const Selection& selection);

}  // namespace zero::launcher
