#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zero::checkpoint {

struct StepFolder {
  int64_t step = 0;
  std::string path;
};

// How much to look at before a checkpoint is called complete.
enum class Scrutiny {
  kSizes,  // the manifest with its hash, and every file's size
  kBytes,  // every byte of every file, as verify() does
};

// List what calls itself a checkpoint in a run's folder, oldest first. A run that does
// not exist yet has none.
std::vector<StepFolder> list_steps(const std::string& run);

// Say why a step's folder is no complete checkpoint; empty: it is one.
std::string flaw_of(const StepFolder& folder, Scrutiny scrutiny);

// Find the newest complete checkpoint. For each newer one that is damaged, why it was
// passed over is appended to `passed_over` (if given), naming the file.
//
// The file `latest` is for people and is not read.
std::optional<StepFolder> newest_complete(const std::string& run,
                                          std::vector<std::string>* passed_over = nullptr,
                                          Scrutiny scrutiny = Scrutiny::kSizes);

}  // namespace zero::checkpoint
