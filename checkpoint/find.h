#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero::checkpoint {

class Folder;

struct StepFolder {
  int64_t step = 0;
  std::string path;
};

// List the folders that call themselves checkpoints in a run's folder, oldest first;
// files and links of such names are somebody else's. A run that does not exist yet has
// none.
std::vector<StepFolder> list_steps(const std::string& run);
std::vector<StepFolder> list_steps(const Folder& run);

// Say why a step's folder is no complete checkpoint; empty: it is one. Looks at the
// manifest with its hash and at every file's size; verify() looks at every byte.
std::string flaw_of(const StepFolder& folder);
std::string flaw_of(const Folder& run, int64_t step);

// Find the newest complete checkpoint. For each newer one that is damaged, why it was
// passed over is appended to `passed_over` (if given), naming the file.
//
// The file `latest` is for people and is not read.
std::optional<StepFolder> newest_complete(
    const std::string& run, std::vector<std::string>* passed_over = nullptr);

}  // namespace zero::checkpoint
