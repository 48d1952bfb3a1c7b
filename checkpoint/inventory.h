#pragma once

#include <string>
#include <vector>

#include "checkpoint/file.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

// One thing that is wrong with a checkpoint.
struct Damage {
  std::string file;
  std::string fqn;  // empty: no tensor's values, or not known
  std::string problem;
};

// "FILE: FQN: problem"
std::string to_string(const Damage& damage);

// Read manifest.json; throws CheckpointError when it is missing or not to be trusted.
Manifest load_manifest(const Folder& folder);

// Compare the folder with the manifest: every file there with its size, no shard besides.
// Reads no file.
std::vector<Damage> check_files(const Folder& folder, const Manifest& manifest);

}  // namespace zero::checkpoint
