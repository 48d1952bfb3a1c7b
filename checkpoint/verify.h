#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/inventory.h"

namespace zero::checkpoint {

struct VerifyReport {
  std::vector<Damage> damages;
  int64_t num_files = 0;
  int64_t num_bytes = 0;  // that were read and had the right hash

  bool is_sound() const { return damages.empty(); }
};

// Read every byte of a checkpoint and check every hash, listing all that is wrong.
//
// Throws only when the folder itself cannot be opened.
VerifyReport verify(const std::string& folder);

}  // namespace zero::checkpoint
