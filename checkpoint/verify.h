#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/error.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"

namespace zero::checkpoint {

// Compare the folder with the manifest: the step of its name, if it is a step's, every
// file there with its size, no shard besides. Reads no file.
std::vector<CheckpointError> check_files(const Folder& folder, const Manifest& manifest);

struct VerifyReport {
  std::vector<CheckpointError> damages;  // without FQN: no tensor's values, or not known
  int64_t num_files = 0;
  int64_t num_bytes = 0;  // that were read and had the right hash

  bool is_sound() const { return damages.empty(); }
};

// Read every byte of a checkpoint and check every hash, listing all that is wrong.
//
// Throws only when the folder itself cannot be opened.
VerifyReport verify(const std::string& folder);

}  // namespace zero::checkpoint
